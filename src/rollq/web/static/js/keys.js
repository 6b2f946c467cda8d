// Keyboard shortcuts: / to search, g and a letter for a page, j and k along rows, ? for help.

import { tell } from "./dialog.js";
import { h } from "./dom.js";
import { PAGES } from "./pages.js";
import { go } from "./router.js";
import { t } from "./words.js";

const PREFIX_MS = 1_500;
let prefixed = 0;

/** Listen to key presses. */
export function openKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    if (Date.now() - prefixed < PREFIX_MS) {
      prefixed = 0;
      const page = PAGES.find((one) => one.key === event.key);
      if (page) take(event, () => go(page.path));
      return;
    }
    if (event.key === "/") take(event, () => document.getElementById("search").focus());
    else if (event.key === "?") take(event, showKeys);
    else if (event.key === "g") prefixed = Date.now();
    else if (event.key === "j") take(event, () => step(1));
    else if (event.key === "k") take(event, () => step(-1));
    else if (event.key === "x") take(event, mark);
  });
}

/** Show the list of shortcuts. */
export function showKeys() {
  const row = (keys, text) => [
    h("dt", {}, keys.map((key) => h("kbd", {}, key))), h("dd", {}, text),
  ];
  tell(t("keys.title"), h("dl", { class: "facts" },
    row(["/"], t("keys.search")), row(["j"], t("keys.down")), row(["k"], t("keys.up")),
    row(["Enter"], t("keys.open")), row(["x"], t("keys.mark")), row(["?"], t("keys.help")),
    PAGES.filter((page) => page.key).map((page) => row(["g", page.key], t(`${page.name}.title`)))));
}

function take(event, act) {
  event.preventDefault();
  act();
}

function step(by) {
  const rows = [...document.querySelectorAll("main tr[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("current"));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  for (const row of rows) row.classList.toggle("current", row === next);
  (next.querySelector("a") ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
}

function mark() {
  document.querySelector("main tr[data-row].current input[type=checkbox]")?.click();
}
