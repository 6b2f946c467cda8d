// A list of events in order.

import { h, icon } from "./dom.js";
import { clock, shortId } from "./format.js";
import { codeWords } from "./parts.js";
import { t } from "./words.js";

const SIGNS = {
  accepted: ["submit", "waiting"], delayed: ["delayed", "delayed"], released: ["waiting", "waiting"], waiting: ["waiting", "waiting"],
  blocked: ["blocked", "blocked"], unblocked: ["waiting", "waiting"],
  assigned: ["running", "running"], adopted: ["running", "running"], running: ["running", "running"], ok: ["ok", "ok"],
  failed: ["failed", "failed"], requeued: ["warn", "failed"], lost: ["warn", "failed"], retried: ["redrive", "delayed"],
  dead: ["dead", "dead"], cancel_requested: ["cancelled", "cancelled"], cancelled: ["cancelled", "cancelled"], redriven: ["redrive", "waiting"],
};
const ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** @param {Array<{ts_ms: number, event: string, attempt?: number, worker?: string, detail?: string}>} events */
export function timeline(events) {
  if (!events.length) return h("p", { class: "muted" }, t("timeline.none"));
  return h("ol", { class: "timeline", dataset: { testid: "timeline" } }, events.map((one) => {
    const [sign, state] = SIGNS[one.event] ?? ["info", "cancelled"];
    const by = [
      one.attempt ? t("timeline.attempt", { n: one.attempt }) : "",
      one.by ? t("timeline.by", { name: one.by }) : "",
      one.worker ? t("timeline.worker", { name: ID.test(one.worker) ? shortId(one.worker) : one.worker }) : "",
    ].filter(Boolean).join(" · ");
    return h("li", { dataset: { state, event: one.event } }, icon(sign), h("div", { class: "stack" },
      h("span", {}, h("strong", {}, codeWords("event", one.event)), by && ` · ${by}`),
      one.detail && one.detail !== one.by && h("span", {}, String(one.detail)),
      one.ts_ms ? h("span", { class: "small muted" }, clock(one.ts_ms)) : null));
  }));
}
