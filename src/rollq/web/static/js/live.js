// The event stream of the server. It is reopened whenever it ends, while the page is open, and
// listeners are notified when it is lost and restored.

import { address } from "./api.js";

const SILENCE_MS = 6_000; // without an overview for this long the link is lost
const RETRY_MS = [500, 1_000, 2_000, 4_000];
const EVENTS = ["overview", "job", "gone", "back", "login"];

const target = new EventTarget();
let source = null;
let watched = "";
let failures = 0;
let heard = 0;
let retry = 0;
let watch = 0;
let opened = false;
let isFirst = true; // no event on this stream yet

/** `live`, `leaderless` or `lost`; `opening` before anything is known. */
export let linkState = "opening";

/** The last overview received, or null. */
export let lastOverview = null;

/** Open the stream; or reopen it for another user. */
export function openLive() {
  opened = true;
  connect();
  watch ||= setInterval(() => {
    if (source && Date.now() - heard > SILENCE_MS) lose();
  }, 1_000);
}

/** Close the stream, because nobody is logged in. */
export function closeLive() {
  opened = false;
  clearTimeout(retry);
  source?.close();
  source = null;
  failures = 0;
  enter("opening");
}

/** Listen to one type of event until the signal aborts. */
export function onLive(kind, listener, signal) {
  target.addEventListener(kind, (event) => listener(event.detail), { signal });
}

/** Also receive events of one job; an empty id ends that. */
export function watchJob(id) {
  if (id === watched) return;
  watched = id;
  if (opened) connect();
}

function connect() {
  clearTimeout(retry);
  source?.close();
  source = new EventSource(address("/live", { job: watched }));
  heard = Date.now();
  isFirst = true;
  source.onerror = () => lose();
  for (const kind of EVENTS) source.addEventListener(kind, (event) => take(kind, event.data));
}

function take(kind, data) {
  heard = Date.now();
  failures = 0;
  let said = {};
  try {
    said = data ? JSON.parse(data) : {};
  } catch {
    return; // not JSON: wait for the next event
  }
  if (kind === "login") return void window.dispatchEvent(new CustomEvent("rollq:login"));
  if (kind === "gone") enter("leaderless");
  else if (kind === "back" || isFirst) enter("live"); // `gone` follows at once if there is no leader
  isFirst = false;
  if (kind === "overview") lastOverview = said;
  send(kind, said);
}

function lose() {
  source?.close();
  source = null;
  const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  if (failures > 1) enter("lost"); // a single end is normal: reopen silently
  clearTimeout(retry);
  retry = setTimeout(connect, wait);
}

function enter(state) {
  if (state === linkState) return;
  const before = linkState;
  linkState = state;
  send("link", { state, before });
  if (state === "live" && before !== "opening") send("again", {});
}

function send(kind, detail) {
  target.dispatchEvent(new CustomEvent(kind, { detail }));
}
