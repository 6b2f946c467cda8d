// Toasts: short messages about the outcome of an action, optionally with undo.

import { h, icon } from "./dom.js";
import { t } from "./words.js";

const SHOWN_MS = 8_000;
const region = h("div", { class: "toasts", role: "status", "aria-live": "polite", dataset: { testid: "toasts" } });
document.body.append(region);

/** A success. `undo` is offered as a button: `{label, run}`. */
export const done = (text, undo = null) => toast("good", "ok", text, "", undo);

/** A failure. @param {Error & {todo?: string}} error */
export function failed(error) {
  if (error.name === "AbortError") return;
  toast("bad", "warn", error.message, error.todo ?? "", null);
}

function toast(state, sign, text, more, undo) {
  const close = () => node.remove();
  const node = h("div", { class: "toast", dataset: { state, testid: "toast" }, role: state === "bad" ? "alert" : null },
    icon(sign),
    h("div", { class: "stack" }, h("strong", {}, text), more && h("span", { class: "muted" }, more)),
    undo && h("button", {
      class: "button small", type: "button",
      onclick: () => {
        close();
        undo.run();
      },
    }, undo.label),
    h("button", { class: "button small quiet bare", type: "button", "aria-label": t("close"), onclick: close }, icon("close")));
  region.append(node);
  let timer = setTimeout(close, SHOWN_MS);
  node.addEventListener("pointerenter", () => clearTimeout(timer));
  node.addEventListener("pointerleave", () => {
    timer = setTimeout(close, SHOWN_MS);
  });
}
