// One batch: its progress, and the failures of its client's jobs, grouped. Which of them belong to the
// batch is not recorded.

import { get, part } from "../api.js";
import { fill, h } from "../dom.js";
import { count, instant } from "../format.js";
import { keepFresh } from "../fresh.js";
import { ask, card, facts } from "../parts.js";
import { t } from "../words.js";
import { grouped } from "./array.js";
import { batchBadge, entered } from "./batches.js";

export function open(root, { params, signal }) {
  const path = `/batches/${part(params.id)}`;
  const [head, progress, failures, side] = Array.from({ length: 4 }, () => h("div", { class: "stack" }));

  const show = async (batch) => {
    if (!head.isConnected) {
      fill(root, head, card(t("batches.progress"), progress), h("div", { class: "columns" },
        h("div", { class: "stack" }, card(t("batch.failures"), h("p", { class: "muted" }, t("batch.failures.text")), failures)),
        h("div", { class: "stack" }, card(t("job.facts"), side))));
    }
    fill(head, h("header", { class: "page-head" },
      h("h1", { class: "wrap" }, t("batch.title"), " ", h("span", { class: "mono" }, batch.key)),
      h("div", { class: "actions" }, batchBadge(batch.state))));
    fill(progress, h("div", { dataset: { testid: "entered" } }, entered(batch)));
    fill(side, facts([
      [t("field.client"), h("a", { href: `/jobs?client=${part(batch.client)}` }, batch.client)],
      [t("batches.jobs"), count(batch.jobs)], [t("batch.parts"), batch.parts ? count(batch.parts) : ""],
      [t(batch.state === "staged" ? "batch.added" : "batch.accepted_at"), batch.since_ms && instant(batch.since_ms)],
    ]));
    const told = await get(`${path}/failures`, {}, signal).catch(() => null);
    if (!signal.aborted) fill(failures, grouped(told?.groups ?? []));
  };
  const again = ask(root, () => get(path, {}, signal), show, signal);
  keepFresh(again, signal);
}
