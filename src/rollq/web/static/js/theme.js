// Light, dark, or as the system says.

const ORDER = ["auto", "light", "dark"];

/** The theme that was chosen. */
export const theme = () => document.documentElement.dataset.theme ?? "auto";

/** Take the next one. */
export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  const root = document.documentElement;
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("rollq.theme", next);
  } catch {
    // not kept: it holds for this page
  }
  return next;
}
