// Keeps a page fresh: what it shows is asked for again when the grid has changed, not more often than
// it may, not while nobody looks, and at once when a lost link is back.

import { onLive } from "./live.js";

/**
 * @param {() => Promise<void>} again
 * @param {AbortSignal} signal ends it
 * @param {number} [everyMs]
 */
export function keepFresh(again, signal, everyMs = 3_000) {
  let asked = Date.now();
  let busy = false;
  const run = async () => {
    if (busy || document.hidden || signal.aborted) return;
    busy = true;
    asked = Date.now();
    try {
      await again();
    } finally {
      busy = false;
    }
  };
  onLive("overview", () => Date.now() - asked >= everyMs && run(), signal);
  onLive("again", run, signal);
  document.addEventListener("visibilitychange", run, { signal });
}
