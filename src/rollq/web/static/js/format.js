// Formats numbers with units, and times in the user's zone.

import { h } from "./dom.js";
import { language, t } from "./words.js";

/** The locale: the language of the page, with the user's region if known. */
function locale() {
  return (navigator.languages ?? []).find((one) => one.startsWith(language())) ?? language();
}

/** An integer, with separators. */
export const count = (value) => Math.round(value ?? 0).toLocaleString(locale());

/** An abbreviated number: 12,400 is 12.4 K. */
export function short(value) {
  if (Math.abs(value ?? 0) < 10_000) return count(value);
  return Number(value).toLocaleString(locale(), { notation: "compact", maximumFractionDigits: 1 });
}

/** A rate, with one digit below ten. */
export function rate(value) {
  const said = value ?? 0;
  if (said >= 10_000) return short(said);
  return said.toLocaleString(locale(), { maximumFractionDigits: said > 0 && said < 10 ? 1 : 0 });
}

/** A size in bytes. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let left = Math.max(0, value ?? 0);
  let unit = 0;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  const digits = unit && left < 10 ? 1 : 0;
  return `${left.toLocaleString(locale(), { maximumFractionDigits: digits })} ${units[unit]}`;
}

/** A duration in its two largest units. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return t("time.ms", { n: Math.round(ms) });
  if (ms < 10_000) return t("time.s", { n: Math.round(ms / 100) / 10 });
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return t("time.s", { n: seconds });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair("time.m", minutes, "time.s", seconds % 60);
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair("time.h", hours, "time.m", minutes % 60);
  return pair("time.d", Math.floor(hours / 24), "time.h", hours % 24);
}

function pair(first, a, second, b) {
  return b ? `${t(first, { n: a })} ${t(second, { n: b })}` : t(first, { n: a });
}

/** The exact time, with its zone. */
export function instant(ms) {
  const at = new Date(ms);
  const text = at.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "medium" });
  const zone = new Intl.DateTimeFormat(locale(), { timeZoneName: "short" })
    .formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "";
  return `${text}.${String(at.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

/** The age of a time, as an element with the exact time as title. `refreshAges` updates it. */
export function ago(ms) {
  if (!ms) return h("span", { class: "muted" }, "–");
  const node = h("time", {
    datetime: new Date(ms).toISOString(), title: instant(ms), dataset: { ago: String(ms) },
  });
  node.textContent = agoText(ms);
  return node;
}

/** The time of day, or date and time, as an element with the exact time. */
export function clock(ms) {
  if (!ms) return h("span", { class: "muted" }, "–");
  const at = new Date(ms);
  const today = new Date().toDateString() === at.toDateString();
  const text = today
    ? at.toLocaleTimeString(locale())
    : at.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "medium" });
  return h("time", { datetime: at.toISOString(), title: instant(ms) }, text);
}

/** Day and minute, short enough for a chart axis. */
export const minute = (ms) => new Date(ms).toLocaleString(locale(), { dateStyle: "short", timeStyle: "short" });

/** Update all ages on the page. */
export function refreshAges() {
  for (const node of document.querySelectorAll("time[data-ago]")) {
    const text = agoText(Number(node.dataset.ago));
    if (node.textContent !== text) node.textContent = text;
  }
}

function agoText(ms) {
  const seconds = Math.round((Date.now() - ms) / 1000);
  const [value, unit] = scaled(Math.abs(seconds));
  const sign = seconds < 0 ? 1 : -1;
  if (value === 0) return t("time.now");
  return new Intl.RelativeTimeFormat(locale(), { style: "narrow", numeric: "always" })
    .format(sign * value, unit);
}

function scaled(seconds) {
  if (seconds < 60) return [seconds, "second"];
  if (seconds < 3600) return [Math.floor(seconds / 60), "minute"];
  if (seconds < 86_400) return [Math.floor(seconds / 3600), "hour"];
  return [Math.floor(seconds / 86_400), "day"];
}

/** The first digits of an id. */
export const shortId = (id) => String(id).slice(0, 8);

/** The same for a task: ids of an array differ in their last digits. */
export const taskId = (id) => `${shortId(id)}…${String(id).slice(-4)}`;
