// A list that is loaded page by page: rows of a table, or a placeholder.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { keepFresh } from "./fresh.js";
import { button, errorNote, skeleton } from "./parts.js";
import { table } from "./table.js";
import { t } from "./words.js";

const ROWS = 50;

/**
 * @param {object} options those of `table`, and:
 * @param {string} options.path of the API
 * @param {string} options.rows the response field that has the rows
 * @param {() => object} [options.query]
 * @param {() => Node} options.blank the placeholder without rows
 * @param {(answer: any) => void} [options.onload]
 * @param {AbortSignal} options.signal
 * @param {number} [options.everyMs] minimum refresh interval
 */
export function list({ path, rows: field, query = () => ({}), blank, onload = () => {}, signal, everyMs = 3_000, ...options }) {
  const rows = table(options);
  const body = h("div", {}, skeleton(4));
  const pager = h("nav", { class: "pager", "aria-label": t("pager"), hidden: true });
  const places = [""];
  let next = null;

  const load = async (asWanted = true) => {
    try {
      const answer = await get(path, { ...query(), after: places.at(-1), limit: ROWS }, signal);
      if (signal.aborted) return;
      const found = answer[field] ?? [];
      next = answer.after ?? null;
      rows.update(found);
      if (!found.length) fill(body, blank());
      else if (!rows.node.isConnected) fill(body, rows.node);
      drawPager();
      onload(answer);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (asWanted || !rows.node.isConnected) fill(body, errorNote(error, () => load()));
    }
  };

  const turn = (change) => {
    change();
    load();
  };

  const drawPager = () => {
    pager.hidden = places.length === 1 && !next;
    fill(pager,
      button(t("pager.back"), () => turn(() => places.pop()), { sign: "previous", kind: "small", disabled: places.length === 1 }),
      button(t("pager.next"), () => turn(() => places.push(next)), { sign: "next", kind: "small", disabled: !next }));
  };

  load();
  keepFresh(() => load(false), signal, everyMs);
  return {
    node: h("div", { class: "stack" }, h("div", { class: "card flush" }, body), pager),
    table: rows,
    load,
    /** Load from the beginning, with the current query. */
    restart: () => turn(() => places.splice(1)),
  };
}
