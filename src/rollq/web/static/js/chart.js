// Small charts with axes and units. Lines differ by dashes as well as by colour.

import { fill, h, s } from "./dom.js";
import { short } from "./format.js";
import { t } from "./words.js";

const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const LEFT = 44;
const RIGHT = 8;
const TOP = 16;
const BOTTOM = 20;
const HEIGHT = 160;

/**
 * A line chart over time; `update(points)` redraws it.
 * @param {object} options
 * @param {string} options.label what it shows, for a screen reader
 * @param {string} options.unit of the y axis
 * @param {Array<{name: string, state: string, words: string}>} options.series fields of a point
 * @param {(first: any, last: any) => [string, string]} options.ends labels for both ends of the x axis
 */
export function lineChart({ label, unit, series, ends }) {
  const drawing = s("svg", { role: "img", "aria-label": label });
  const node = h("figure", { class: "chart" }, drawing, h("ul", { class: "legend" }, series.map(legend)));
  let points = [];
  const draw = () => {
    const width = drawing.clientWidth || 480;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const top = niceTop(Math.max(1, ...points.flatMap((point) => series.map((one) => point[one.name] ?? 0))));
    fill(drawing, scale(top, width, unit), points.length > 1 && series.map((one, at) => s("path", {
      class: "curve", "data-state": one.state, "stroke-dasharray": DASHES[at % DASHES.length],
      d: path(points.map((point) => point[one.name] ?? 0), top, width),
    })), levelEnds(points, ends, width));
    const last = points.at(-1);
    drawing.setAttribute("aria-label", last
      ? `${label}: ${series.map((one) => `${one.words} ${short(last[one.name] ?? 0)} ${unit}`).join(", ")}` : label);
  };
  new ResizeObserver(draw).observe(drawing);
  return {
    node,
    update(next) {
      points = next;
      draw();
    },
  };
}

/**
 * A bar chart, one bar per row.
 * @param {{label: string, unit: string, state?: string, rows: Array<{name: string, value: number}>}} options
 */
export function columnChart({ label, unit, state = "running", rows }) {
  const drawing = s("svg", { role: "img", "aria-label": label });
  const draw = () => {
    const width = drawing.clientWidth || 480;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const top = niceTop(Math.max(1, ...rows.map((row) => row.value)));
    const room = (width - LEFT - RIGHT) / Math.max(1, rows.length);
    fill(drawing, scale(top, width, unit), rows.map((row, at) => {
      const high = (row.value / top) * (HEIGHT - TOP - BOTTOM);
      return s("rect", {
        class: "column", "data-state": state, x: LEFT + at * room + room * 0.1, width: Math.max(1, room * 0.8),
        y: HEIGHT - BOTTOM - high, height: Math.max(high, row.value ? 1 : 0),
      }, s("title", {}, `${row.name}: ${short(row.value)} ${unit}`));
    }), levelEnds(rows, (first, last) => [first.name, last === first ? "" : last.name], width));
  };
  new ResizeObserver(draw).observe(drawing);
  return h("figure", { class: "chart" }, drawing);
}

function legend(one, at) {
  return h("li", { dataset: { state: one.state } },
    s("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" },
      s("path", { d: "M0 4h24", "stroke-dasharray": DASHES[at % DASHES.length] })), one.words);
}

function scale(top, width, unit) {
  const rules = [0, 0.5, 1].map((share) => {
    const y = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    return [
      s("path", { class: share ? "rule" : "axis", d: `M${LEFT} ${y}H${width - RIGHT}` }),
      s("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(top * share)),
    ];
  });
  return [rules, s("text", { x: 0, y: 9 }, unit)];
}

function levelEnds(points, ends, width) {
  if (!points.length) return s("text", { x: width / 2, y: HEIGHT / 2 - 8, "text-anchor": "middle" }, t("chart.empty"));
  const [first, last] = ends(points[0], points.at(-1));
  return [
    s("text", { x: LEFT, y: HEIGHT - 5 }, first),
    s("text", { x: width - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, last),
  ];
}

function path(values, top, width) {
  const step = (width - LEFT - RIGHT) / Math.max(1, values.length - 1);
  return values.map((value, at) => {
    const y = HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - TOP - BOTTOM);
    return `${at ? "L" : "M"}${(LEFT + at * step).toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}

/** The next round number: 2, 4, 10, 20, 40, 100, … whose half is an integer. */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 6, 8, 10].find((step) => step * power >= value) * power;
  return found < 2 ? 2 : found;
}
