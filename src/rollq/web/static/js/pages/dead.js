// Dead letters: jobs whose attempts ran out. Grouped by cause; run again as they are or with other
// arguments, or forgotten.

import { get, post } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { ago, count, shortId, taskId } from "../format.js";
import { keepFresh } from "../fresh.js";
import { order, redriveEdited } from "../job_orders.js";
import { list } from "../lists.js";
import { can } from "../me.js";
import { button, card, codeWords, empty, pageHead } from "../parts.js";
import { go } from "../router.js";
import { t } from "../words.js";

export function open(root, { query, signal }) {
  const filter = { cause: query.cause ?? "", queue: query.queue ?? "", exec: query.exec ?? "" };
  const isFiltered = Object.values(filter).some(Boolean);
  const groups = h("div", { class: "stack" });
  const selection = h("div", { class: "selection", hidden: true, role: "region", "aria-label": t("table.marked"), dataset: { testid: "selection" } });
  const again = () => {
    dead.table.clear();
    dead.load();
    loadGroups();
  };

  const dead = list({
    path: "/dead", rows: "jobs", query: () => filter, signal, label: t("dead.title"), key: (row) => row.id, marks: true, compact: true, testid: "dead",
    onmark: (ids) => drawSelection([...ids]),
    columns: [
      { label: t("field.job"), class: "nowrap", cell: (row) => h("a", { class: "mono", href: `/jobs/${row.id}`, title: row.id }, row.array ? taskId(row.id) : shortId(row.id)) },
      { label: t("job.cause"), class: "p-wide", cell: (row) => h("div", {}, h("strong", {}, codeWords("cause", row.end?.cause ?? "")), row.end?.detail && h("div", { class: "small muted wrap" }, row.end.detail)) },
      { label: t("field.exec"), class: "cut p-wide", cell: (row) => h("span", { title: lineOf(row) }, lineOf(row)) },
      { label: t("field.queue"), class: "cut p-hide", cell: (row) => h("span", { title: row.queue }, row.queue) },
      { label: t("field.attempt"), class: "right p-hide", cell: (row) => count(row.attempt) },
      { label: t("field.changed"), class: "right nowrap", cell: (row) => ago(row.changed_ms) },
      { label: "", class: "right nowrap p-end", cell: (row) => button(t("order.redrive_edited"), () => redriveEdited(row, again), { sign: "edit", kind: "small", disabled: !can("jobs.redrive"), testid: "redrive-edited" }) },
    ],
    blank: () => (isFiltered
      ? empty("search", t("dead.none_found"), "", h("a", { class: "button", href: "/dead" }, t("dead.show_all")))
      : empty("ok", t("dead.none"), t("dead.none.text"))),
  });

  const drawSelection = (ids) => {
    selection.hidden = !ids.length;
    fill(selection, h("strong", {}, t("jobs.marked", { n: ids.length })), h("div", { class: "actions" }, orders({ ids }, ids.length, again, "marked")));
  };

  const loadGroups = async () => {
    const told = await get("/dead", { group_by: "cause" }, signal).catch(() => null);
    if (signal.aborted || !told) return;
    const found = told.groups ?? [];
    fill(groups, found.length ? card(t("dead.groups"), h("ul", { class: "stack", dataset: { testid: "groups" } }, found.map((one) => groupLine(one, again)))) : null);
  };

  fill(root,
    pageHead(t("dead.title"), t("dead.lead"), ...orders(isFiltered ? { filter: told(filter) } : { all: true }, 0, again, "all")),
    groups, dead.node, selection);
  loadGroups();
  keepFresh(loadGroups, signal, 5_000);
}

/** Redrive and purge, of some or of all. */
function orders(what, n, then, testid) {
  const whole = n ? { n } : null;
  const redrive = async () => {
    if (!whole && !await confirm({ title: t("dead.redrive_all"), text: t("dead.redrive_all.text"), yes: t("order.redrive") })) return;
    order(() => post("/dead/redrive", what), (answer) => t("redrive.done", { n: answer.count ?? n }), then);
  };
  const purge = async () => {
    const yes = await confirm({
      title: whole ? t("dead.purge", whole) : t("dead.purge_all"), text: t("dead.purge.text"), yes: t("order.purge"), danger: true,
    });
    if (yes) order(() => post("/dead/purge", what), (answer) => t("dead.purged", { n: answer.count ?? n }), then);
  };
  return [
    button(whole ? t("order.redrive") : t("dead.redrive_these"), redrive, { sign: "redrive", kind: whole ? "small" : "", disabled: !can("jobs.redrive"), testid: `redrive-${testid}` }),
    button(whole ? t("order.purge") : t("dead.purge_these"), purge, { sign: "trash", kind: `danger ${whole ? "small" : ""}`, disabled: !can("jobs.purge"), testid: `purge-${testid}` }),
  ];
}

function groupLine(one, then) {
  const which = told({ cause: one.cause, exec: one.exec, queue: one.queue });
  return h("li", { class: "card-head" },
    h("strong", { class: "number" }, count(one.count)), h("span", {}, codeWords("cause", one.cause ?? "")),
    h("span", { class: "muted wrap" }, [one.exec, one.queue, one.detail].filter(Boolean).join(" · ")),
    h("div", { class: "actions" },
      button(t("dead.only"), () => go(`/dead?${new URLSearchParams(which)}`), { kind: "small" }),
      button(t("order.redrive"), () => order(() => post("/dead/redrive", { filter: which }), (answer) => t("redrive.done", { n: answer.count ?? one.count }), then),
        { sign: "redrive", kind: "small", disabled: !can("jobs.redrive") })));
}

const told = (filter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value));

const lineOf = (row) => [row.exec, ...(row.request?.args ?? [])].join(" ");
