// Batches and how many of their jobs are queued.

import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { list } from "../lists.js";
import { badge, command, empty, pageHead } from "../parts.js";
import { t } from "../words.js";

const SIGNS = { staged: "delayed", unpacking: "running", accepted: "ok" };

export function open(root, { signal }) {
  const batches = list({
    path: "/batches", rows: "batches", signal, label: t("batches.title"), key: (row) => row.id, testid: "batches",
    columns: [
      { label: t("batch.title"), class: "cut", cell: (row) => h("a", { href: `/batches/${row.id}`, title: row.key }, row.key) },
      { label: t("field.client"), class: "cut", cell: (row) => h("span", { title: row.client }, row.client) },
      { label: t("field.state"), class: "nowrap", cell: (row) => batchBadge(row.state) },
      { label: t("batches.jobs"), class: "right", cell: (row) => count(row.jobs) },
      { label: t("batches.progress"), class: "wide", cell: (row) => entered(row) },
    ],
    blank: () => empty("batches", t("batches.none"), t("batches.none.text"), command("rollq batch list")),
  });
  fill(root, pageHead(t("batches.title"), t("batches.lead")), batches.node);
}

/** Staged, unpacking or accepted: colour, shape and text. */
export const batchBadge = (state) => badge(SIGNS[state], SIGNS[state], t(`batches.${state}`));

/** How many jobs of a batch are queued, as a bar and as text. */
export function entered(row) {
  const words = t("batches.entered", { entered: count(row.entered), jobs: count(row.jobs) });
  const pieces = [["ok", row.entered], ["delayed", row.jobs - row.entered]].filter(([, share]) => share > 0).map(([state, share]) => {
    const piece = h("i", { dataset: { state } });
    piece.style.flex = `${share / row.jobs} 0 0`;
    return piece;
  });
  return h("div", { class: "stack" }, h("div", { class: "bar", role: "img", "aria-label": words }, pieces), h("span", { class: "muted" }, words));
}
