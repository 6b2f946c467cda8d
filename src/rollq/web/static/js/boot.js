// Before the first paint: the theme and the language that this browser chose. Not a module, so that
// nothing is drawn in the wrong colours first.
(() => {
  const chosen = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is forbidden: the defaults hold
    }
  };
  const root = document.documentElement;
  const theme = chosen("rollq.theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  const wanted = chosen("rollq.language") ?? navigator.language ?? "en";
  root.lang = wanted.startsWith("ja") ? "ja" : "en";
})();
