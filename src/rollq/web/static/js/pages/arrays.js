// Arrays and their progress.

import { fill, h } from "../dom.js";
import { count, shortId } from "../format.js";
import { list } from "../lists.js";
import { command, empty, pageHead, stateBar } from "../parts.js";
import { t } from "../words.js";

export function open(root, { signal }) {
  const arrays = list({
    path: "/arrays", rows: "arrays", signal, label: t("arrays.title"), key: (row) => row.id, testid: "arrays",
    columns: [
      { label: t("array.title"), class: "nowrap", cell: (row) => h("a", { class: "mono", href: `/arrays/${row.id}`, title: row.id }, shortId(row.id)) },
      { label: t("field.exec"), class: "cut", cell: (row) => row.exec },
      { label: t("field.queue"), class: "cut", cell: (row) => h("span", { title: row.queue }, row.queue) },
      { label: t("arrays.tasks"), class: "right", cell: (row) => count(row.tasks) },
      { label: t("arrays.progress"), class: "wide", cell: (row) => stateBar(taskCounts(row), t("arrays.progress")) },
    ],
    blank: () => empty("arrays", t("arrays.none"), t("arrays.none.text"), command("rollq submit PROGRAM --array 1000")),
  });
  fill(root, pageHead(t("arrays.title"), t("arrays.lead")), arrays.node);
}

/** The tasks of an array by state. Those that wait for another attempt count as waiting. */
export function taskCounts(row) {
  const again = Math.max(0, (row.open ?? 0) - (row.running ?? 0));
  return {
    waiting: row.delayed ? 0 : (row.waiting ?? 0) + again, delayed: row.delayed ? row.waiting : 0, running: row.running,
    ok: row.ok, failed: row.failed, dead: row.dead, cancelled: row.cancelled,
  };
}
