// The texts of the pages, in the user's language.

/** @type {Record<string, string>} */
let words = {};

export const LANGUAGES = { en: "English", ja: "日本語" };

/** The language of the pages: `en` or `ja`. */
export const language = () => document.documentElement.lang;

/** Load the texts of the chosen language. */
export async function loadWords() {
  const answer = await fetch(`/static/words/${language()}.json`);
  words = await answer.json();
}

/** Choose another language; the caller redraws the page. */
export async function chooseLanguage(name) {
  document.documentElement.lang = name;
  try {
    localStorage.setItem("rollq.language", name);
  } catch {
    // storage is not available: it applies to this page only
  }
  await loadWords();
}

/**
 * A text by its name. `{n}` is replaced by a value, `{n|job|jobs}` by singular or plural.
 * @param {string} name
 * @param {Record<string, any>} [values]
 */
export function t(name, values = {}) {
  const found = words[name];
  if (found === undefined) return name;
  return found.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, key, one, many) => {
    const value = values[key];
    if (one !== undefined) return Number(value) === 1 ? one : many;
    return typeof value === "number" ? value.toLocaleString(language()) : String(value ?? "");
  });
}

/** Whether there is a text of this name. */
export const hasWords = (name) => name in words;
