// The theme: light, dark, or as the system.

const ORDER = ["auto", "light", "dark"];

/** The chosen theme. */
export const theme = () => document.documentElement.dataset.theme ?? "auto";

/** Switch to the next one. */
export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  const root = document.documentElement;
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("rollq.theme", next);
  } catch {
    // storage is not available: it applies to this page only
  }
  return next;
}
