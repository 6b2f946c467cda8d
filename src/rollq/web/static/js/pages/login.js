// Log in with the token of an account. The browser keeps a cookie that scripts cannot read.

import { fill, h, icon } from "../dom.js";
import { login } from "../me.js";
import { field } from "../parts.js";
import { go } from "../router.js";
import { t } from "../words.js";

export function open(root, { query }) {
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, spellcheck: "false", dataset: { testid: "token" } });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const box = field(t("login.token"), token, t("login.token.help"));
  box.append(wrong);
  const send = h("button", { class: "button primary", dataset: { testid: "login" } }, icon("access"), t("login.title"));

  const enter = async (event) => {
    event.preventDefault();
    send.disabled = true;
    wrong.textContent = "";
    try {
      await login(token.value.trim());
      window.dispatchEvent(new CustomEvent("rollq:me"));
      go(isOurs(query.from) ? query.from : "/");
    } catch (error) {
      wrong.textContent = [error.message, error.todo].filter(Boolean).join(". ");
      token.select();
    } finally {
      send.disabled = false;
    }
  };

  fill(root, h("section", { class: "card login", "aria-label": t("login.title") },
    h("h1", {}, t("login.title")), h("p", { class: "muted" }, t("login.text")),
    h("form", { class: "form", onsubmit: enter }, box, send)));
  token.focus();
}

/** Only paths of these pages are accepted, no other URLs. */
const isOurs = (path) => typeof path === "string" && /^\/(?![/\\])/.test(path);
