// Sets the chosen theme and language before the first paint. Not a module, because those load after it.
// Otherwise the page would flash in the wrong colours.
(() => {
  const chosen = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is not available: use the defaults
    }
  };
  const root = document.documentElement;
  const theme = chosen("rollq.theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  const wanted = chosen("rollq.language") ?? navigator.language ?? "en";
  root.lang = wanted.startsWith("ja") ? "ja" : "en";
})();
