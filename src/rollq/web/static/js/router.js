// Client-side routing: each page has its own URL, with history and links.

import { PAGES } from "./pages.js";

let leave = new AbortController();
let draw = () => {};

/**
 * Start routing.
 * @param {(page: object, place: object) => void} drawing shows a page; its place has `params`, `query`
 *   and a `signal` that aborts when the page is left
 */
export function openRouter(drawing) {
  draw = drawing;
  window.addEventListener("popstate", () => show());
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/static/") || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  show();
}

/** Navigate to a path. */
export function go(path) {
  if (path !== location.pathname + location.search) history.pushState(null, "", path);
  show();
  window.scrollTo(0, 0);
}

/** Change the query of this page, without a history entry and without redrawing. */
export function rewriteQuery(query) {
  const text = queryOf(query);
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

/** Encode a query, without empty values. */
export function queryOf(query) {
  return new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
}

/** Redraw this page. */
export function show() {
  leave.abort();
  leave = new AbortController();
  const query = Object.fromEntries(new URLSearchParams(location.search));
  const [page, params] = pageHere();
  draw(page, { params, query, signal: leave.signal });
}

/** The page of this URL and its parameters; null if there is none. */
export function pageHere() {
  for (const page of PAGES) {
    const params = match(page.path, location.pathname);
    if (params) return [page, params];
  }
  return [null, {}];
}

function match(pattern, path) {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (wanted.length !== given.length) return null;
  const params = {};
  for (const [at, piece] of wanted.entries()) {
    if (piece.startsWith(":")) params[piece.slice(1)] = decode(given[at]);
    else if (piece !== given[at]) return null;
  }
  return params;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // invalid encoding: use it as it is
  }
}
