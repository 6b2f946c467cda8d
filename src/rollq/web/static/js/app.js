// The entry point: loads texts and user, draws the frame, opens the stream, shows the page of the path.

import { fill, h } from "./dom.js";
import { openKeys } from "./keys.js";
import { closeLive, openLive, watchJob } from "./live.js";
import { loadMe, me } from "./me.js";
import { load } from "./pages.js";
import { empty, errorNote, skeleton } from "./parts.js";
import { go, openRouter, pageHere, show } from "./router.js";
import { drawShell, main, openShell } from "./shell.js";
import { loadWords, t } from "./words.js";

async function start() {
  const [page] = pageHere();
  if (page) load(page).catch(() => {}); // prefetch; errors are shown when it is drawn
  let wrong = null;
  const asked = loadMe().catch((error) => {
    wrong = error; // shown by the page's first request
  });
  await Promise.all([loadWords(), asked]);
  openShell(show);
  openKeys();
  openRouter(draw);
  if (me() || wrong) openLive();
  window.addEventListener("rollq:login", toLogin);
  window.addEventListener("rollq:me", () => openLive());
  if (!me() && !wrong) toLogin();
}

async function draw(page, place) {
  drawShell(page);
  const root = fill(main, h("div", { class: "page", dataset: { page: page?.name ?? "lost" } })).firstChild;
  if (page?.name !== "job") watchJob("");
  if (!page) {
    fill(root, empty("search", t("lost.title"), t("lost.text"), h("a", { class: "button", href: "/" }, t("overview.title"))));
    return;
  }
  fill(root, skeleton());
  try {
    const module = await load(page);
    if (!place.signal.aborted) {
      fill(root);
      module.open(root, place);
    }
  } catch (error) {
    if (!place.signal.aborted) fill(root, errorNote(error, show));
  }
}

function toLogin() {
  closeLive();
  if (location.pathname === "/login") return;
  const from = location.pathname + location.search;
  go(from === "/" ? "/login" : `/login?${new URLSearchParams({ from })}`);
}

start();
