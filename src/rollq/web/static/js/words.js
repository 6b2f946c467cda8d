// The words of the pages, in the language of the reader.

/** @type {Record<string, string>} */
let words = {};

export const LANGUAGES = { en: "English", ja: "日本語" };

/** The language of the pages: `en` or `ja`. */
export const language = () => document.documentElement.lang;

/** Load the words of the language that was chosen. */
export async function loadWords() {
  const answer = await fetch(`/static/words/${language()}.json`);
  words = await answer.json();
}

/** Choose another language; the page is drawn again by whoever asks. */
export async function chooseLanguage(name) {
  document.documentElement.lang = name;
  try {
    localStorage.setItem("rollq.language", name);
  } catch {
    // not kept: it holds for this page
  }
  await loadWords();
}

/**
 * Words by their name. `{n}` stands for a value, `{n|job|jobs}` for a word that goes with a number.
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

/** Whether there are words of this name. */
export const hasWords = (name) => name in words;
