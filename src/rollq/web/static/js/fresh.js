// Refreshes a page: it is reloaded at an interval while it is visible, and at once when the connection
// is back.

import { onLive } from "./live.js";

/**
 * @param {() => Promise<void>} again
 * @param {AbortSignal} signal ends it
 * @param {number} [everyMs]
 */
export function keepFresh(again, signal, everyMs = 3_000) {
  let busy = false;
  const run = async () => {
    if (busy || document.hidden || signal.aborted) return;
    busy = true;
    try {
      await again();
    } finally {
      busy = false;
    }
  };
  const timer = setInterval(run, everyMs);
  signal.addEventListener("abort", () => clearInterval(timer));
  onLive("again", run, signal);
  document.addEventListener("visibilitychange", run, { signal });
}
