// Dead jobs: their attempts are used up. Grouped by cause; redrive them, optionally with other
// arguments, or delete them.

import { get, post } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { ago, count, shortId, taskId } from "../format.js";
import { keepFresh } from "../fresh.js";
import { isShown, order, redriveEdited } from "../job_orders.js";
import { list } from "../lists.js";
import { can } from "../me.js";
import { button, card, causeWords, empty, pageHead } from "../parts.js";
import { t } from "../words.js";

const PAGE_ROWS = 500;
const DETAIL_CHARS = 200; // of the detail that distinguishes groups

export function open(root, { query, signal }) {
  const filter = { queue: query.queue ?? "" };
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
      { label: t("job.cause"), class: "p-wide", cell: (row) => h("div", {}, h("strong", {}, causeWords(row.end?.cause ?? "")), row.end?.detail && h("div", { class: "small muted wrap" }, row.end.detail)) },
      { label: t("field.exec"), class: "cut p-wide", cell: (row) => h("span", { title: lineOf(row) }, lineOf(row)) },
      { label: t("field.queue"), class: "cut p-hide", cell: (row) => h("span", { title: row.queue }, row.queue) },
      { label: t("field.attempt"), class: "right p-hide", cell: (row) => count(row.attempt) },
      { label: t("field.changed"), class: "right nowrap", cell: (row) => ago(row.changed_ms) },
      { label: "", class: "right nowrap p-end", cell: (row) => button(t("order.redrive_edited"), () => redriveEdited(row, again), { sign: "edit", kind: "small", disabled: !can("jobs.redrive") || !isShown(row), title: isShown(row) ? null : t("again.payload"), testid: "redrive-edited" }) },
    ],
    blank: () => (filter.queue
      ? empty("search", t("dead.none_found"), "", h("a", { class: "button", href: "/dead" }, t("dead.show_all")))
      : empty("ok", t("dead.none"), t("dead.none.text"))),
  });

  const drawSelection = (ids) => {
    selection.hidden = !ids.length;
    fill(selection, h("strong", {}, t("jobs.marked", { n: ids.length })), h("div", { class: "actions" }, orders({ ids }, ids.length, again, "marked")));
  };

  const loadGroups = async () => {
    const told = await get("/dead", { ...filter, group_by: "cause" }, signal).catch(() => null);
    if (signal.aborted || !told) return;
    const found = told.groups ?? [];
    fill(groups, found.length ? card(t("dead.groups"), h("ul", { class: "stack", dataset: { testid: "groups" } }, found.map((one) => groupLine(one, again)))) : null);
  };

  fill(root,
    pageHead(t("dead.title"), t("dead.lead"), ...orders(filter.queue ? { filter } : { all: true }, 0, again, "all")),
    groups, dead.node, selection);
  loadGroups();
  keepFresh(loadGroups, signal, 5_000);
}

/** Redrive and purge, of selected jobs or of all. */
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
  const send = (path, words) => order(() => ofGroup(one, path), (answer) => words(answer.count), then);
  const purge = async () => {
    const yes = await confirm({ title: t("dead.purge", { n: one.count }), text: t("dead.purge.text"), yes: t("order.purge"), danger: true });
    if (yes) send("/dead/purge", (n) => t("dead.purged", { n }));
  };
  return h("li", { class: "card-head" },
    h("strong", { class: "number" }, count(one.count)), h("span", {}, causeWords(one.cause)),
    h("span", { class: "muted wrap" }, [one.exec, one.queue, one.detail].filter(Boolean).join(" · ")), ago(one.last_ms),
    h("div", { class: "actions" },
      button(t("order.redrive"), () => send("/dead/redrive", (n) => t("redrive.done", { n })), { sign: "redrive", kind: "small", disabled: !can("jobs.redrive"), testid: "redrive-group" }),
      button(t("order.purge"), purge, { sign: "trash", kind: "small danger", disabled: !can("jobs.purge"), testid: "purge-group" })));
}

/** Apply an action to all jobs of a group: page by page, each job once. */
async function ofGroup(group, path) {
  let done = 0;
  let after = "";
  do {
    const page = await get("/dead", { queue: group.queue, after, limit: PAGE_ROWS });
    const ids = page.jobs.filter((job) => isOf(job, group)).map((job) => job.id);
    if (ids.length) done += (await post(path, { ids })).count;
    after = page.after;
  } while (after);
  return { count: done };
}

const isOf = (job, group) => job.exec === group.exec && (job.end?.cause ?? "") === group.cause
  && (job.end?.detail ?? "").slice(0, DETAIL_CHARS) === group.detail;

const lineOf = (row) => [row.exec, ...(row.request?.args ?? [])].join(" ");
