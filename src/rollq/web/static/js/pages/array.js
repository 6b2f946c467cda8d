// One array: its progress, and its failures, grouped.

import { get, part } from "../api.js";
import { fill, h } from "../dom.js";
import { count, shortId, taskId } from "../format.js";
import { keepFresh } from "../fresh.js";
import { cancelJobs } from "../job_orders.js";
import { can } from "../me.js";
import { ask, button, card, causeWords, facts, stateBar } from "../parts.js";
import { t } from "../words.js";
import { taskCounts } from "./arrays.js";

const IDS_SHOWN = 8;

export function open(root, { params, signal }) {
  const id = params.id;
  const [head, progress, failures, side] = Array.from({ length: 4 }, () => h("div", { class: "stack" }));

  const show = async (array) => {
    if (!head.isConnected) {
      fill(root, head, card(t("arrays.progress"), progress), h("div", { class: "columns" },
        h("div", { class: "stack" }, card(t("array.failures"), failures)), h("div", { class: "stack" }, card(t("job.facts"), side))));
    }
    const isOpen = array.waiting + array.open > 0;
    fill(head, h("header", { class: "page-head" },
      h("h1", {}, t("array.title"), " ", h("span", { class: "mono", title: array.id }, shortId(array.id))),
      h("div", { class: "actions" }, isOpen && button(t("array.cancel"), () => cancelJobs([id], again),
        { sign: "cancelled", kind: "danger", disabled: !can("jobs.cancel"), testid: "cancel" }))));
    fill(progress, stateBar(taskCounts(array), t("arrays.progress")));
    fill(side, facts([
      [t("field.id"), h("span", { class: "mono wrap" }, array.id)], [t("field.exec"), array.exec], [t("field.queue"), array.queue],
      [t("field.client"), array.client], [t("arrays.tasks"), count(array.tasks)],
      [t("array.running_max"), array.running_max ? count(array.running_max) : t("none.limit")],
    ]));
    const told = await get(`/arrays/${part(id)}/failures`, {}, signal).catch(() => null);
    if (!signal.aborted) fill(failures, grouped(told?.groups ?? []));
  };
  const again = ask(root, () => get(`/arrays/${part(id)}`, {}, signal), show, signal);
  keepFresh(again, signal);
}

/** Failures, grouped by cause; each group links to some of its jobs. */
export function grouped(groups) {
  if (!groups.length) return h("p", { class: "muted" }, t("array.no_failures"));
  return h("ul", { class: "stack", dataset: { testid: "failures" } }, groups.map((one) => h("li", { class: "stack" },
    h("strong", {}, h("span", { class: "number" }, count(one.count)), " × ", causeWords(one.cause)),
    one.detail && h("span", { class: "muted wrap" }, one.detail),
    h("span", { class: "tags" }, (one.ids ?? []).slice(0, IDS_SHOWN).map((id) => h("a", { class: "tag mono", href: `/jobs/${id}` }, taskId(id)))))));
}
