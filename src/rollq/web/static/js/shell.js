// The frame of every page: top bar, navigation, banners.

import { fill, h, icon } from "./dom.js";
import { count, refreshAges } from "./format.js";
import { showKeys } from "./keys.js";
import { lastOverview, linkState, onLive } from "./live.js";
import { logout, me } from "./me.js";
import { GROUPS, PAGES } from "./pages.js";
import { go } from "./router.js";
import { nextTheme, theme } from "./theme.js";
import { failed } from "./toasts.js";
import { chooseLanguage, language, LANGUAGES, t } from "./words.js";

const ID = /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;

/** The element for the page. */
export const main = h("main", { class: "main", id: "main", tabindex: "-1" });

const banners = h("div", { class: "banners", role: "region" });
const sidebar = h("nav", { class: "sidebar" });
const topbar = h("header", { class: "topbar" });
const news = h("div", { class: "sr", "aria-live": "polite", dataset: { testid: "news" } });
const skip = h("a", { class: "skip", href: "#main" });
let onredraw = () => {};
let current = null;

/** Add the frame to the document. `redraw` redraws the page in another language. */
export function openShell(redraw) {
  onredraw = redraw;
  document.getElementById("early")?.remove(); // the placeholder of index.html
  document.body.append(skip, topbar, h("div", { class: "frame" }, sidebar, h("div", { class: "content" }, banners, main)), news);
  onLive("link", ({ state, before }) => {
    drawLink();
    drawBanners();
    if (before !== "opening" && state !== "opening") news.textContent = t(`link.${state}`);
  });
  onLive("overview", () => {
    drawDead();
    drawBanners();
  });
  setInterval(refreshAges, 1_000);
  document.addEventListener("keydown", (event) => event.key === "Escape" && openMenu(false));
  main.addEventListener("click", () => openMenu(false));
}

/** Update the frame for a page. */
export function drawShell(page) {
  current = page;
  skip.textContent = t("skip");
  sidebar.setAttribute("aria-label", t("nav"));
  banners.setAttribute("aria-label", t("banners"));
  const title = page ? t(`${page.name}.title`) : t("lost.title");
  document.title = `${title} · rollq`;
  openMenu(false);
  drawTopbar();
  drawSidebar();
  drawBanners();
}

function drawTopbar() {
  const search = h("input", {
    id: "search", type: "search", placeholder: t("search.placeholder"), "aria-label": t("search"),
    autocomplete: "off", spellcheck: "false", dataset: { testid: "search" },
  });
  const form = h("form", {
    class: "search", role: "search",
    onsubmit: (event) => {
      event.preventDefault();
      find(search.value.trim());
    },
  }, icon("search"), search);
  fill(topbar,
    h("button", {
      class: "button quiet bare menu-button", type: "button", "aria-label": t("menu"), "aria-expanded": "false",
      id: "menu", onclick: () => openMenu(!document.body.classList.contains("menu-open")),
    }, icon("menu")),
    h("a", { class: "brand", href: "/", "aria-label": "rollq" }, icon("brand"), h("span", {}, "rollq")),
    form,
    h("div", { class: "topbar-end" }, h("span", { class: "link-state", id: "link-state", dataset: { testid: "link" } })));
  drawLink();
}

function find(text) {
  if (!text) return;
  if (ID.test(text)) go(`/jobs/${encodeURIComponent(text)}`);
  else go(`/jobs?${new URLSearchParams({ text })}`);
}

function drawLink() {
  const node = document.getElementById("link-state");
  if (!node) return;
  node.dataset.state = linkState;
  node.title = t(`link.${linkState}`);
  fill(node, icon(linkState === "lost" ? "lost" : linkState === "leaderless" ? "warn" : "live"),
    h("span", {}, t(`link.${linkState}.short`)));
}

function drawSidebar() {
  const here = current?.below ?? current?.name;
  const link = (page) => h("a", {
    class: "nav-link", href: page.path, "aria-current": page.name === here ? "page" : null, dataset: { nav: page.name },
  }, icon(page.icon), t(`${page.name}.nav`), page.name === "dead" && h("span", { class: "count", id: "dead-count" }));
  fill(sidebar,
    GROUPS.map((group) => h("div", { class: "nav-group" }, h("h2", {}, t(`nav.${group}`)),
      h("ul", {}, PAGES.filter((page) => page.group === group).map((page) => h("li", {}, link(page)))))),
    h("div", { class: "sidebar-end" }, account(), h("div", { class: "actions" }, themeButton(), languageChoice(), keysButton())));
  drawDead();
}

function account() {
  const who = me();
  if (!who) return h("a", { href: "/login" }, t("login.title"));
  const name = who.account || t("account.anonymous");
  const leave = who.auth !== "off" && who.account && h("button", {
    class: "button small quiet", type: "button", dataset: { testid: "logout" },
    onclick: () => logout().then(() => go("/login"), failed),
  }, icon("leave"), t("logout"));
  return h("div", { class: "stack" },
    h("span", { class: "wrap" }, t("account.group", { group: who.group ?? "", version: who.version ?? "" })),
    h("div", { class: "actions" }, icon("user"), h("span", { class: "wrap" }, name), leave));
}

function themeButton() {
  const node = h("button", { class: "button small bare", type: "button", dataset: { testid: "theme" } });
  const draw = () => {
    node.setAttribute("aria-label", t(`theme.${theme()}`));
    node.title = t(`theme.${theme()}`);
    fill(node, icon(theme()));
  };
  node.addEventListener("click", () => {
    nextTheme();
    draw();
  });
  draw();
  return node;
}

function languageChoice() {
  return Object.entries(LANGUAGES).filter(([name]) => name !== language()).map(([name, words]) =>
    h("button", {
      class: "button small", type: "button", lang: name, dataset: { testid: "language" },
      onclick: () => chooseLanguage(name).then(() => onredraw(), failed),
    }, words));
}

function keysButton() {
  return h("button", { class: "button small bare", type: "button", "aria-label": t("keys.title"), title: t("keys.title"), onclick: showKeys }, icon("keyboard"));
}

function openMenu(open) {
  document.body.classList.toggle("menu-open", open);
  document.getElementById("menu")?.setAttribute("aria-expanded", String(open));
}

function drawDead() {
  const node = document.getElementById("dead-count");
  const dead = lastOverview?.counts?.dead ?? 0;
  if (node) node.textContent = dead ? count(dead) : "";
}

function drawBanners() {
  const said = [];
  if (me()?.unsafe) said.push(banner("unsafe", "danger", t("banner.unsafe")));
  if (linkState === "lost") said.push(banner("lost", "", t("banner.lost"), "lost"));
  if (linkState === "leaderless") said.push(banner("leaderless", "", t("banner.leaderless")));
  const text = said.map((one) => one.textContent).join();
  if (banners.textContent !== text || banners.children.length !== said.length) fill(banners, said);
}

function banner(name, kind, text, sign = "warn") {
  return h("div", { class: `banner ${kind}`, role: "alert", dataset: { testid: `banner-${name}` } }, icon(sign), h("span", {}, text));
}
