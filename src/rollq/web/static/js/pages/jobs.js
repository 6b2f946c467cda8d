// Jobs, newest first: filters, a page of rows, and actions on selected ones.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { ago, bytes, duration, shortId, taskId } from "../format.js";
import { keepFresh } from "../fresh.js";
import { cancelJobs, redriveJobs } from "../job_orders.js";
import { can } from "../me.js";
import { button, choice, empty, errorNote, field, pageHead, skeleton, stateBadge, STATES } from "../parts.js";
import { go, queryOf, rewriteQuery } from "../router.js";
import { table } from "../table.js";
import { t } from "../words.js";

const ROWS = 50;
const ROWS_LOOKED_AT = 500; // per request, where the server filters row by row
const LOOKS_MAX = 10;
const TEXT_FILTERS = ["exec", "queue", "client", "key", "text"];
const SPANS = { "15m": 900_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000, "7d": 604_800_000 };

export function open(root, { query, signal }) {
  const filter = Object.fromEntries(["state", "span", ...TEXT_FILTERS].map((name) => [name, query[name] ?? ""]));
  const places = query.after ? ["", query.after] : [""]; // cursors of the pages up to this one
  const list = h("section", { class: "card flush", "aria-label": t("jobs.title") }, skeleton(8));
  const rows = jobTable(() => drawSelection());
  const selection = h("div", { class: "selection", hidden: true, role: "region", "aria-label": t("table.marked"), dataset: { testid: "selection" } });
  const more = button("", () => load(true), { sign: "redrive", kind: "small", testid: "new-jobs" });
  const pager = h("nav", { class: "pager", "aria-label": t("pager") });
  let next = null;
  more.hidden = true;

  const isRare = () => ["key", "text", "span"].some((name) => filter[name]);

  const asked = (after) => ({
    ...Object.fromEntries(["state", ...TEXT_FILTERS].map((name) => [name, filter[name]])),
    since_ms: filter.span ? Date.now() - SPANS[filter.span] : "", after, limit: isRare() ? ROWS_LOOKED_AT : ROWS,
  });

  /** Load a page. The server applies some filters row by row, so a page may take several requests. */
  const look = async () => {
    const found = [];
    let after = places.at(-1);
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const answer = await get("/jobs", asked(after), signal);
      found.push(...(answer.jobs ?? []));
      after = answer.after;
      if (!after || found.length >= ROWS) break;
    }
    return { jobs: found, after };
  };

  const load = async (asWanted) => {
    try {
      const answer = await look();
      if (!signal.aborted) show(answer, asWanted);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (asWanted) fill(list, errorNote(error, () => load(true)));
    }
  };

  const show = (answer, asWanted) => {
    next = answer.after;
    const found = answer.jobs ?? [];
    const known = new Set(rows.rows().map((row) => row.id));
    const fresh = found.filter((row) => !known.has(row.id)).length;
    const isHeld = !asWanted && known.size && (rows.marked.size || window.scrollY > 240);
    if (isHeld && fresh) { // do not move a user who has scrolled or selected rows
      const byId = new Map(found.map((row) => [row.id, row]));
      rows.update(rows.rows().map((row) => byId.get(row.id) ?? row));
      more.lastChild.textContent = t("jobs.more", { n: fresh });
      more.hidden = false;
      return;
    }
    more.hidden = true;
    rows.update(found);
    if (!found.length) fill(list, nothing(filter, next));
    else if (!rows.node.isConnected) fill(list, rows.node);
    drawPager();
  };

  const turn = (place) => {
    places.splice(0, places.length, ...place);
    rows.clear();
    rewriteQuery({ ...filter, after: places.at(-1) });
    load(true);
    window.scrollTo(0, 0);
  };

  const drawPager = () => {
    fill(pager,
      button(t("pager.newest"), () => turn([""]), { kind: "small", disabled: places.length === 1 }),
      h("div", { class: "actions" },
        button(t("pager.back"), () => turn(places.slice(0, -1)), { sign: "previous", kind: "small", disabled: places.length === 1 }),
        button(t("pager.next"), () => turn([...places, next]), { sign: "next", kind: "small", disabled: !next, testid: "next" })));
  };

  const drawSelection = () => {
    const ids = [...rows.marked];
    selection.hidden = !ids.length;
    if (!ids.length) return;
    const then = () => {
      rows.clear();
      load(true);
    };
    fill(selection, h("strong", {}, t("jobs.marked", { n: ids.length })),
      h("div", { class: "actions" },
        button(t("order.cancel"), () => cancelJobs(ids, then), { sign: "cancelled", kind: "small danger", disabled: !can("jobs.cancel"), testid: "cancel-marked" }),
        button(t("order.redrive"), () => redriveJobs(ids, then), { sign: "redrive", kind: "small", disabled: !can("jobs.redrive"), testid: "redrive-marked" }),
        button(t("table.clear"), () => rows.clear(), { kind: "small quiet" })));
  };

  fill(root,
    pageHead(t("jobs.title"), "", more, button(t("submit.title"), () => go("/submit"), { sign: "submit", kind: "primary" })),
    filters(filter, () => turn([""])), list, selection, pager);
  load(true);
  keepFresh(async () => isRare() || load(false), signal);
}

function filters(filter, changed) {
  const set = (name, value) => {
    if (filter[name] === value) return;
    filter[name] = value;
    changed();
  };
  const chips = h("div", { class: "chips", role: "group", "aria-label": t("jobs.by_state") }, ["", ...STATES].map((state) =>
    h("button", {
      class: "button small", type: "button", "aria-pressed": String(filter.state === state), dataset: { filter: state || "all" },
      onclick: (event) => {
        for (const one of chips.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
        set("state", state);
      },
    }, state ? t(`state.${state}`) : t("jobs.all"))));
  const input = (name) => field(t(`field.${name}`), h("input", {
    type: "search", value: filter[name], autocomplete: "off", spellcheck: "false", dataset: { testid: `filter-${name}` },
    onchange: (event) => set(name, event.target.value.trim()),
  }));
  const span = field(t("field.span"), choice(
    [["", t("span.all")], ...Object.keys(SPANS).map((name) => [name, t(`span.${name}`)])], filter.span,
    { onchange: (event) => set("span", event.target.value), dataset: { testid: "filter-span" } }));
  const isUsed = TEXT_FILTERS.some((name) => filter[name]) || filter.span;
  return h("section", { class: "card", "aria-label": t("jobs.filters") }, chips,
    h("details", { open: isUsed || null }, h("summary", {}, t("jobs.filters")),
      h("div", { class: "fields filters" }, TEXT_FILTERS.map(input), span)));
}

function jobTable(onmark) {
  return table({
    label: t("jobs.title"), key: (row) => row.id, marks: true, compact: true, onmark, testid: "jobs",
    columns: [
      { label: t("field.job"), class: "nowrap", cell: (row) => h("a", { class: "mono", href: `/jobs/${row.id}`, title: row.id }, row.array ? taskId(row.id) : shortId(row.id)) },
      { label: t("field.state"), cell: (row) => stateBadge(row.state) },
      { label: t("field.exec"), class: "cut p-wide", cell: (row) => h("span", { title: asLine(row) }, asLine(row)) },
      { label: t("field.queue"), class: "cut p-wide", cell: (row) => h("span", { class: "muted", title: row.queue }, row.queue) },
      { label: t("field.client"), class: "cut p-hide", cell: (row) => h("span", { title: row.client }, row.client) },
      { label: t("field.attempt"), class: "right p-hide", cell: (row) => String(row.attempt ?? 0) },
      { label: t("field.run"), class: "right nowrap p-hide", cell: (row) => (row.end ? duration(row.end.run_ms) : "–") },
      { label: t("field.changed"), class: "right nowrap p-end", cell: (row) => ago(row.changed_ms) },
    ],
  });
}

function asLine(row) {
  const asked = row.request ?? {};
  if ("payload_bytes" in asked) return `${row.exec} (${bytes(asked.payload_bytes)})`;
  return [row.exec, ...(asked.args ?? [])].join(" ");
}

function nothing(filter, next) {
  if (next) return empty("search", t("jobs.none_here"), t("jobs.none_here.text"));
  const isFiltered = queryOf(filter) !== "";
  return isFiltered
    ? empty("search", t("jobs.none_found"), t("jobs.none_found.text"), h("a", { class: "button", href: "/jobs" }, t("jobs.show_all")))
    : empty("jobs", t("jobs.none"), t("jobs.none.text"), h("a", { class: "button primary", href: "/submit" }, t("submit.title")));
}
