// Components of pages.

import { fill, h, icon } from "./dom.js";
import { short } from "./format.js";
import { done } from "./toasts.js";
import { hasWords, t } from "./words.js";

export const STATES = ["blocked", "waiting", "delayed", "running", "ok", "failed", "dead", "cancelled"];
export const ENDED = ["ok", "failed", "dead", "cancelled"];

/** The state of a job: colour, shape and text. */
export const stateBadge = (state) => badge(state, state, t(`state.${state}`));

/** A badge: `good`, `warn`, `bad`, or a state of a job; with icon and text. */
export function badge(state, sign, words) {
  return h("span", { class: "state", dataset: { state } }, icon(sign), words);
}

/** The header of a page. */
export function pageHead(title, lead, ...actions) {
  return h("header", { class: "page-head" },
    h("h1", {}, title),
    actions.length ? h("div", { class: "actions" }, actions) : null,
    lead && h("p", { class: "lead" }, lead));
}

/** A section with a heading. */
export function card(title, ...children) {
  return h("section", { class: "card", "aria-label": title }, h("div", { class: "card-head" }, h("h2", {}, title)), children);
}

/** A figure with its unit, optionally a link. */
export function stat({ name, sign, state, value, unit = "", note = "", href = null, testid = null }) {
  return h(href ? "a" : "div", { class: "stat", href, dataset: { ...(state ? { state } : {}), ...(testid ? { testid } : {}) } },
    h("span", { class: "name" }, sign && icon(sign), h("span", {}, name)),
    h("span", { class: "value" }, value, unit && h("span", { class: "unit" }, unit)),
    note && h("span", { class: "under" }, note));
}

/** A button. */
export function button(words, act, { sign = null, kind = "", disabled = false, title = null, testid = null } = {}) {
  return h("button", { class: `button ${kind}`, type: "button", onclick: act, disabled, title, dataset: testid ? { testid } : {} },
    sign && icon(sign), h("span", {}, words));
}

/** A list of names and values; pairs without a value are left out. Numbers are formatted. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false && value !== 0)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A form field with its label and help text. */
export function field(label, control, help = "") {
  control.id ||= `field-${Math.random().toString(36).slice(2)}`;
  const helpId = `${control.id}-help`;
  if (help) control.setAttribute("aria-describedby", helpId);
  return h("div", { class: "field" },
    h("label", { for: control.id }, label), control, help && h("p", { class: "help", id: helpId }, help));
}

/** A select box: pairs of value and text. */
export function choice(pairs, value, props = {}) {
  const node = h("select", props, pairs.map(([one, words]) => h("option", { value: one }, words)));
  node.value = value;
  return node;
}

/** A placeholder for an empty list, with a hint. */
export function empty(sign, title, text, ...more) {
  return h("div", { class: "note", dataset: { testid: "empty" } }, icon(sign), h("h2", {}, title), text && h("p", {}, text), more);
}

/** An error, with its hint and a retry button. */
export function errorNote(error, again = null) {
  return h("div", { class: "note error", role: "alert", dataset: { testid: "error" } },
    icon("warn"),
    h("h2", {}, error.message),
    error.todo && h("p", {}, error.todo),
    error.code && h("code", { class: "muted" }, error.code),
    again && button(t("retry"), again, { sign: "redrive" }));
}

/** A loading placeholder. */
export function skeleton(lines = 6) {
  return h("div", { class: "skeleton", role: "status", "aria-label": t("loading"), dataset: { testid: "loading" } },
    Array.from({ length: lines }, () => h("i")));
}

/** A shell command with a copy button. */
export function command(text) {
  return h("div", { class: "command" }, h("code", {}, text),
    h("button", {
      class: "button small quiet bare", type: "button", "aria-label": t("copy.what", { what: text }), title: t("copy"),
      onclick: () => copy(text),
    }, icon("copy")));
}

/** Copy a text to the clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    done(t("copied"));
  } catch {
    window.prompt(t("copy"), text); // without a secure context there is no clipboard
  }
}

/** A notice on a page. */
export function callout(state, sign, title, ...more) {
  return h("div", { class: "callout", dataset: { state } }, icon(sign),
    h("div", { class: "stack" }, h("strong", {}, title), more));
}

/** A stacked bar of counts by state, with its legend. */
export function stateBar(counts, label) {
  const total = STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  const said = STATES.filter((state) => counts[state]);
  const bar = h("div", { class: "bar", role: "img", "aria-label": `${label}: ${said.map((state) => `${counts[state]} ${t(`state.${state}`)}`).join(", ")}` },
    said.map((state) => {
      const piece = h("i", { dataset: { state } });
      piece.style.flex = `${counts[state] / total} 0 0`;
      return piece;
    }));
  return h("div", { class: "stack" }, bar,
    h("ul", { class: "legend" }, said.map((state) => h("li", { dataset: { state } },
      icon(state), h("span", { class: "number" }, short(counts[state])), t(`state.${state}`)))));
}

/** The text for a code of the grid; the code itself if there is none. */
export const codeWords = (prefix, code) => (hasWords(`${prefix}.${code}`) ? t(`${prefix}.${code}`) : code);

/** Why something failed: a cause of the grid, or how the program ended. */
export function causeWords(cause) {
  const [, how, number] = /^(exit code|signal) (\d+)$/.exec(cause) ?? [];
  return how ? `${t(how === "signal" ? "job.signal" : "job.exit_code")} ${number}` : codeWords("cause", cause);
}

/**
 * Show the result of a query: a skeleton first, an error with a retry button.
 * @returns {() => Promise<void>} reloads, and keeps the old content until the response arrives
 */
export function ask(root, question, show, signal) {
  let shown = false;
  const run = async () => {
    try {
      const answer = await question();
      if (signal.aborted) return;
      show(answer);
      shown = true;
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (!shown) fill(root, errorNote(error, () => {
        fill(root, skeleton());
        run();
      }));
    }
  };
  fill(root, skeleton());
  run();
  return run;
}
