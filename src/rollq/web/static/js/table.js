// A table of rows with keys. Rows are added and updated in place, so that nothing moves under the
// pointer. On a phone each row is a card: cells carry their labels.

import { fill, h } from "./dom.js";
import { t } from "./words.js";

const focusable = (node) => [...node.querySelectorAll("a, button, input")];

/**
 * @param {object} options
 * @param {string} options.label what the table is, for a screen reader
 * @param {Array<{label: string, class?: string, cell: (row: any) => any}>} options.columns
 * @param {(row: any) => string} options.key
 * @param {boolean} [options.compact] on a phone without labels: `p-wide`, `p-end`, `p-hide` place cells
 * @param {boolean} [options.marks] rows can be selected
 * @param {(keys: Set<string>) => void} [options.onmark]
 * @param {string} [options.testid]
 */
export function table({ label, columns, key, compact = false, marks = false, onmark = () => {}, testid = "table" }) {
  const marked = new Set();
  const body = h("tbody", { role: "rowgroup" });
  const all = h("input", { type: "checkbox", "aria-label": t("table.all"), onchange: () => markAll(all.checked) });
  const head = h("tr", { role: "row" },
    marks && h("th", { scope: "col", role: "columnheader", class: "narrow" }, all),
    columns.map((one) => h("th", { scope: "col", role: "columnheader", class: one.class }, one.label || h("span", { class: "sr" }, t("table.actions")))));
  const node = h("div", { class: "table-wrap" },
    h("table", { class: `table cards ${compact ? "compact" : ""}`, role: "table", "aria-label": label, dataset: { testid } },
      h("thead", { role: "rowgroup" }, head), body));
  /** @type {Map<string, {row: any, text: string, node: HTMLElement}>} */
  let shown = new Map();

  const tell = () => {
    for (const [id, one] of shown) {
      one.node.setAttribute("aria-selected", String(marked.has(id)));
      const box = one.node.querySelector("input[data-mark]");
      if (box) box.checked = marked.has(id);
    }
    all.checked = shown.size > 0 && marked.size === shown.size;
    all.indeterminate = marked.size > 0 && marked.size < shown.size;
    onmark(marked);
  };

  const markAll = (on) => {
    marked.clear();
    if (on) for (const id of shown.keys()) marked.add(id);
    tell();
  };

  const cells = (row, id) => [
    marks && h("td", { role: "cell", class: "narrow", "data-label": t("table.mark") }, h("input", {
      type: "checkbox", "aria-label": t("table.mark.what", { what: id }), dataset: { mark: "" },
      onchange: (event) => {
        if (event.target.checked) marked.add(id);
        else marked.delete(id);
        tell();
      },
    })),
    columns.map((one) => h("td", { role: "cell", class: one.class, "data-label": one.label || null }, one.cell(row))),
  ];

  const drawn = (row, id) => {
    const text = JSON.stringify(row);
    const before = shown.get(id);
    if (before && before.text === text) return before;
    const line = before?.node ?? h("tr", { role: "row", dataset: { row: id } });
    const at = focusable(line).indexOf(document.activeElement);
    fill(line, cells(row, id));
    if (at >= 0) focusable(line)[at]?.focus({ preventScroll: true }); // keep the focus
    return { row, text, node: line };
  };

  return {
    node,
    marked,
    /** The rows that are shown. */
    rows: () => [...shown.values()].map((one) => one.row),
    /** Show these rows, in this order. */
    update(rows) {
      const next = new Map(rows.map((row) => [key(row), drawn(row, key(row))]));
      for (const [id, one] of shown) if (!next.has(id)) one.node.remove();
      let at = body.firstElementChild;
      for (const one of next.values()) {
        if (one.node === at) at = at.nextElementSibling;
        else body.insertBefore(one.node, at);
      }
      shown = next;
      for (const id of [...marked]) if (!next.has(id)) marked.delete(id);
      if (marks) tell();
    },
    /** Clear the selection. */
    clear: () => markAll(false),
  };
}
