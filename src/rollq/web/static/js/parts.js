// What pages are made of.

import { fill, h, icon } from "./dom.js";
import { short } from "./format.js";
import { done } from "./toasts.js";
import { hasWords, t } from "./words.js";

export const STATES = ["blocked", "waiting", "delayed", "running", "ok", "failed", "dead", "cancelled"];
export const ENDED = ["ok", "failed", "dead", "cancelled"];

/** The state of a job: a colour, a shape and a word. */
export const stateBadge = (state) => badge(state, state, t(`state.${state}`));

/** A small statement: `good`, `warn`, `bad`, or a state of a job; with a sign and words. */
export function badge(state, sign, words) {
  return h("span", { class: "state", dataset: { state } }, icon(sign), words);
}

/** The top of a page. */
export function pageHead(title, lead, ...actions) {
  return h("header", { class: "page-head" },
    h("h1", {}, title),
    actions.length ? h("div", { class: "actions" }, actions) : null,
    lead && h("p", { class: "lead" }, lead));
}

/** A part of a page under a heading. */
export function card(title, ...children) {
  return h("section", { class: "card", "aria-label": title }, h("div", { class: "card-head" }, h("h2", {}, title)), children);
}

/** A figure with its unit. With `href` it leads somewhere. */
export function stat({ name, sign, state, value, unit = "", note = "", href = null, testid = null }) {
  return h(href ? "a" : "div", { class: "stat", href, dataset: { ...(state ? { state } : {}), ...(testid ? { testid } : {}) } },
    h("span", { class: "name" }, sign && icon(sign), name),
    h("span", { class: "value" }, value, unit && h("span", { class: "unit" }, unit)),
    note && h("span", { class: "under" }, note));
}

/** A button. */
export function button(words, act, { sign = null, kind = "", disabled = false, title = null, testid = null } = {}) {
  return h("button", { class: `button ${kind}`, type: "button", onclick: act, disabled, title, dataset: testid ? { testid } : {} },
    sign && icon(sign), h("span", {}, words));
}

/** Pairs of a name and a value; pairs without a value are left out. Numbers come as text. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false && value !== 0)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A field of a form with its label, and a line of help. */
export function field(label, control, help = "") {
  control.id ||= `field-${Math.random().toString(36).slice(2)}`;
  const helpId = `${control.id}-help`;
  if (help) control.setAttribute("aria-describedby", helpId);
  return h("div", { class: "field" },
    h("label", { for: control.id }, label), control, help && h("p", { class: "help", id: helpId }, help));
}

/** A choice of a list: pairs of a value and its words. */
export function choice(pairs, value, props = {}) {
  const node = h("select", props, pairs.map(([one, words]) => h("option", { value: one }, words)));
  node.value = value;
  return node;
}

/** Nothing to show, and what to do about it. */
export function empty(sign, title, text, ...more) {
  return h("div", { class: "note", dataset: { testid: "empty" } }, icon(sign), h("h2", {}, title), text && h("p", {}, text), more);
}

/** Something went wrong, with what to do and a way to try again. */
export function errorNote(error, again = null) {
  return h("div", { class: "note error", role: "alert", dataset: { testid: "error" } },
    icon("warn"),
    h("h2", {}, error.message),
    error.todo && h("p", {}, error.todo),
    error.code && h("code", { class: "muted" }, error.code),
    again && button(t("retry"), again, { sign: "redrive" }));
}

/** Something is on its way. */
export function skeleton(lines = 6) {
  return h("div", { class: "skeleton", role: "status", "aria-label": t("loading"), dataset: { testid: "loading" } },
    Array.from({ length: lines }, () => h("i")));
}

/** A command for a terminal, ready to be copied. */
export function command(text) {
  return h("div", { class: "command" }, h("code", {}, text),
    h("button", {
      class: "button small quiet bare", type: "button", "aria-label": t("copy.what", { what: text }), title: t("copy"),
      onclick: () => copy(text),
    }, icon("copy")));
}

/** Put a text on the clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    done(t("copied"));
  } catch {
    window.prompt(t("copy"), text); // without a secure context there is no clipboard
  }
}

/** A notice within a page. */
export function callout(state, sign, title, ...more) {
  return h("div", { class: "callout", dataset: { state } }, icon(sign),
    h("div", { class: "stack" }, h("strong", {}, title), more));
}

/** How many stand where, as one bar with its legend. `counts` is by state. */
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

/** The words for a code of the grid, if there are some; else the code. */
export const codeWords = (prefix, code) => (hasWords(`${prefix}.${code}`) ? t(`${prefix}.${code}`) : code);

/** Why something ended badly: a cause of the grid, or how the program ended. */
export function causeWords(cause) {
  const [, how, number] = /^(exit code|signal) (\d+)$/.exec(cause) ?? [];
  return how ? `${t(how === "signal" ? "job.signal" : "job.exit_code")} ${number}` : codeWords("cause", cause);
}

/**
 * Show what a question is answered with: a skeleton first, an error with a way to try again.
 * @returns {() => Promise<void>} asks again, and leaves what is shown until the answer is there
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
