// Numbers with units, and times in the reader's zone.

import { h } from "./dom.js";
import { language, t } from "./words.js";

/** The language of the page, in the manner of the reader's country where that is known. */
function locale() {
  return (navigator.languages ?? []).find((one) => one.startsWith(language())) ?? language();
}

/** A whole number, with the separators of the language. */
export const count = (value) => Math.round(value ?? 0).toLocaleString(locale());

/** A number that has to be short: 12,400 is 12.4 K. */
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

/** An amount of bytes. */
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

/** A length of time in its two largest units. */
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

/** The exact instant, with its zone. */
export function instant(ms) {
  const at = new Date(ms);
  const text = at.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "medium" });
  const zone = new Intl.DateTimeFormat(locale(), { timeZoneName: "short" })
    .formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "";
  return `${text}.${String(at.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

/** How long ago, as an element that says the exact instant when pointed at. `refreshAges` keeps it. */
export function ago(ms) {
  if (!ms) return h("span", { class: "muted" }, "–");
  const node = h("time", {
    datetime: new Date(ms).toISOString(), title: instant(ms), dataset: { ago: String(ms) },
  });
  node.textContent = agoText(ms);
  return node;
}

/** A clock time of today, or a date and time, as an element with the exact instant. */
export function clock(ms) {
  if (!ms) return h("span", { class: "muted" }, "–");
  const at = new Date(ms);
  const today = new Date().toDateString() === at.toDateString();
  const text = today
    ? at.toLocaleTimeString(locale())
    : at.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "medium" });
  return h("time", { datetime: at.toISOString(), title: instant(ms) }, text);
}

/** A day and a minute, short enough for the end of an axis. */
export const minute = (ms) => new Date(ms).toLocaleString(locale(), { dateStyle: "short", timeStyle: "short" });

/** Write every age on the page again. */
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

/** The beginning of an id, which is enough for people. */
export const shortId = (id) => String(id).slice(0, 8);

/** The same of a task: those of an array differ at their ends. */
export const taskId = (id) => `${shortId(id)}…${String(id).slice(-4)}`;
