// Charts of the tables of the pipeline; or how to create them.

import { get, part } from "../api.js";
import { columnChart } from "../chart.js";
import { fill, h } from "../dom.js";
import { clock, count, minute, short } from "../format.js";
import { ask, callout, card, command, empty, pageHead } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const COLUMNS_SHOWN = 8;
const BARS_MAX = 60;

export function open(root, { query, signal }) {
  const body = h("div", { class: "stack" });
  fill(root, pageHead(t("history.title"), t("history.lead")), body);
  ask(body, () => get("/history", {}, signal), (told) => {
    const found = told.tables ?? [];
    if (!told.readable) return void fill(body, none(told));
    const chosen = found.find((one) => one.name === query.table) ?? found[0];
    const shown = h("div", { class: "stack" });
    fill(body, h("nav", { class: "chips", "aria-label": t("history.tables") }, found.map((one) => h("a", {
      class: "button small", href: `/history?table=${encodeURIComponent(one.name)}`, "aria-current": one === chosen ? "page" : null,
    }, one.name))), shown);
    ask(shown, () => get(`/history/${part(chosen.name)}`, {}, signal), (answer) => fill(shown, tableOf(chosen.name, rowsOf(answer))), signal);
  }, signal);
}

function none(told) {
  return empty("history", t("history.none"), t("history.none.text"),
    h("div", { class: "stack" }, (told.todo ?? []).map((one) => (/^(rollq|pip) /.test(one) ? command(one) : h("p", {}, one)))));
}

/** Rows as objects by column name. */
const rowsOf = (answer) => (answer.rows ?? []).map((row) => Object.fromEntries(answer.columns.map((name, at) => [name, row[at]])));

/** The first text column names a bar, the first numeric ones are its heights. */
function tableOf(name, rows) {
  if (!rows.length) return callout("waiting", "info", t("history.empty", { name }));
  const fields = Object.keys(rows[0]);
  const numbers = fields.filter((one) => typeof rows[0][one] === "number");
  const names = fields.filter((one) => !numbers.includes(one));
  const label = (row) => (isTime(row[names[0]]) ? minute(Date.parse(row[names[0]])) : String(row[names[0]] ?? ""));
  const charts = numbers.slice(0, 4).map((one) => card(one, columnChart({
    label: `${name}: ${one}`, unit: unitOf(one), rows: rows.slice(-BARS_MAX).map((row) => ({ name: label(row), value: row[one] ?? 0 })),
  })));
  const list = table({
    label: name, key: (row) => JSON.stringify(row), testid: "history",
    columns: [...names, ...numbers].slice(0, COLUMNS_SHOWN).map((one) => ({
      label: one, class: numbers.includes(one) ? "right" : "cut",
      cell: (row) => valueOf(row[one]),
    })),
  });
  list.update(rows);
  return [h("div", { class: "grid" }, charts), h("p", { class: "muted" }, t("history.rows", { n: rows.length, shown: count(rows.length) })), h("div", { class: "card flush" }, list.node)];
}

const isTime = (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value);

function valueOf(value) {
  if (typeof value === "number") return short(value);
  return isTime(value) ? clock(Date.parse(value)) : String(value ?? "–");
}

/** The unit is part of the column name. */
function unitOf(name) {
  const last = name.split("_").find((one) => ["ms", "s", "bytes", "percent"].includes(one));
  return last ?? t("overview.jobs_unit");
}
