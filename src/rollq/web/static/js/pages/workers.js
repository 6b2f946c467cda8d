// Workers: queues, running jobs, load, and draining.

import { part, post } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { count, shortId } from "../format.js";
import { order } from "../job_orders.js";
import { list } from "../lists.js";
import { can } from "../me.js";
import { badge, button, command, empty, pageHead } from "../parts.js";
import { t } from "../words.js";

const JOBS_SHOWN = 3;

export function open(root, { signal }) {
  const workers = list({
    path: "/workers", rows: "workers", signal, label: t("workers.title"), key: (row) => row.id, testid: "workers",
    columns: [
      { label: t("field.worker"), class: "roomy", cell: (row) => h("div", {}, h("strong", { class: "wrap" }, row.name || shortId(row.id)), h("div", { class: "small muted mono", title: row.id }, shortId(row.id))) },
      { label: t("field.state"), cell: stateOf },
      { label: t("workers.patterns"), class: "roomy", cell: (row) => h("span", { class: "tags" }, (row.patterns ?? []).map((one) => h("span", { class: "tag mono" }, one))) },
      { label: t("workers.running"), cell: (row) => h("div", {}, busyOf(row), runningOf(row)) },
      { label: t("workers.load"), cell: loadOf },
      { label: t("workers.offer"), class: "roomy", cell: offerOf },
      { label: "", class: "right nowrap", cell: (row) => actionsOf(row, () => workers.load()) },
    ],
    blank: () => empty("workers", t("workers.none"), t("workers.none.text"), command("rollq worker HOST PORT --exec-dir DIR")),
  });
  fill(root, pageHead(t("workers.title"), t("workers.lead")), workers.node);
}

const isDrained = (row) => row.state === "draining" || row.state === "drained";

function stateOf(row) {
  if (row.connected === false) return badge("bad", "lost", t("workers.gone"));
  if (isDrained(row)) return badge("warn", "drain", t(`workers.${row.state}`));
  if (row.cpu_capped) return badge("warn", "warn", t("workers.capped"));
  return badge("good", "ok", t("workers.serving"));
}

const gib = (bytes) => (bytes / 1024 ** 3).toFixed(1);

function loadOf(row) {
  const load = row.load;
  if (!load) return h("span", { class: "muted" }, t("workers.not_told"));
  return h("div", {},
    h("div", { class: "number" }, t("workers.cpu", { percent: Math.round(load.cpu_percent) })),
    h("div", { class: "number" }, t("workers.memory", { used: gib(load.memory_used_bytes), total: gib(load.memory_total_bytes) })),
    h("div", { class: "small muted" }, t("workers.disk", { free: gib(load.disk_free_bytes) })));
}

function offerOf(row) {
  const used = row.in_use ?? {};
  const resources = Object.entries(row.resources ?? {}).map(([name, amount]) => `${name} ${used[name] ?? 0}/${amount}`);
  return h("div", {},
    h("span", { class: "tags" }, [...resources, ...(row.labels ?? [])].map((one) => h("span", { class: "tag" }, one))),
    h("div", { class: "small muted" }, t("workers.layers", { names: (row.layers ?? []).join(", ") || t("workers.no_layers") })));
}

/** Slots in use; the other jobs that the worker holds are fetched ahead. */
function busyOf(row) {
  const [held, slots] = [row.running ?? 0, row.slots ?? 0];
  const busy = Math.min(held, slots);
  return [t("workers.busy", { busy, slots }),
    held > busy && h("div", { class: "small muted" }, t("overview.ahead", { n: held - busy }))];
}

function runningOf(row) {
  const jobs = row.jobs ?? [];
  return jobs.length > 0 && h("div", { class: "tags" },
    jobs.slice(0, JOBS_SHOWN).map((id) => h("a", { class: "tag mono number", href: `/jobs/${id}` }, shortId(id))),
    jobs.length > JOBS_SHOWN && h("span", { class: "muted" }, `+${count(jobs.length - JOBS_SHOWN)}`));
}

function actionsOf(row, then) {
  const send = (verb, words) => order(() => post(`/workers/${part(row.id)}/${verb}`), () => words, then);
  const name = row.name || shortId(row.id);
  const drain = async () => {
    if (await confirm({ title: t("workers.drain.title", { name }), text: t("workers.drain.text"), yes: t("workers.drain") })) send("drain", t("workers.drain.done", { name }));
  };
  const dismiss = async () => {
    if (await confirm({ title: t("workers.dismiss.title", { name }), text: t("workers.dismiss.text"), yes: t("workers.dismiss"), danger: true })) send("dismiss", t("workers.dismiss.done", { name }));
  };
  return h("div", { class: "actions" },
    can("workers.drain") && (isDrained(row)
      ? button(t("workers.undrain"), () => send("undrain", t("workers.undrain.done", { name })), { kind: "small", sign: "running", testid: "undrain" })
      : button(t("workers.drain"), drain, { kind: "small", sign: "drain", testid: "drain" })),
    button(t("workers.dismiss"), dismiss, { kind: "small danger", disabled: !can("workers.dismiss"), sign: "close", testid: "dismiss" }));
}
