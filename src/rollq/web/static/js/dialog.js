// Confirmation dialogs and small forms.

import { h } from "./dom.js";
import { t } from "./words.js";

/**
 * Ask for confirmation.
 * @param {{title: string, text?: string, yes: string, danger?: boolean, body?: Node}} question
 * @returns {Promise<boolean>}
 */
export function confirm(question) {
  return new Promise((resolve) => {
    const yes = h("button", { class: `button ${question.danger ? "danger" : "primary"}`, value: "yes", dataset: { testid: "confirm" } }, question.yes);
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, question.title),
      question.text && h("p", {}, question.text),
      question.body,
      h("div", { class: "actions" },
        h("button", { class: "button", value: "no", formnovalidate: true }, t("dialog.no")), yes));
    const node = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    node.addEventListener("close", () => {
      node.remove();
      resolve(node.returnValue === "yes");
    });
    document.body.append(node);
    node.showModal();
    (form.querySelector("input, textarea, select") ?? yes).focus();
  });
}

/** Show a dialog until it is closed. */
export function tell(title, body) {
  const node = h("dialog", { "aria-labelledby": "dialog-title" },
    h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), body,
      h("div", { class: "actions" }, h("button", { class: "button primary" }, t("close")))));
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
}
