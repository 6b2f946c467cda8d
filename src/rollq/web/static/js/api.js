// The HTTP API: JSON requests and responses, errors with a code and a hint.

import { t } from "./words.js";

const BASE = "/api/v1";

/** A failed request. */
export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, message?: string, todo?: string}} said */
  constructor(status, said) {
    super(said.message || t("error.status", { status }));
    this.status = status;
    this.code = said.code ?? "";
    this.todo = said.todo ?? "";
  }
}

/**
 * Get a document.
 * @param {string} path below `/api/v1`
 * @param {Record<string, any>} [query] empty values are left out
 * @param {AbortSignal} [signal]
 */
export const get = (path, query = {}, signal = undefined) =>
  ask(`${BASE}${path}${queryText(query)}`, { signal });

/** POST a document. */
export const post = (path, body = {}) => ask(`${BASE}${path}`, ordered("POST", body));

/** PUT a document. */
export const put = (path, body) => ask(`${BASE}${path}`, ordered("PUT", body));

/** DELETE. */
export const remove = (path) => ask(`${BASE}${path}`, { method: "DELETE" });

/** POST a form with files. @param {FormData} form */
export const postForm = (path, form) => ask(`${BASE}${path}`, { method: "POST", body: form });

/** The URL of something that the browser loads itself: a stream, a download. */
export const address = (path, query = {}) => `${BASE}${path}${queryText(query)}`;

/** Encode a path segment. */
export const part = (text) => encodeURIComponent(text);

/** The text of a resource, from a byte offset: `{text, next}`. */
export async function text(path, query, signal) {
  const answer = await reach(`${BASE}${path}${queryText(query)}`, { signal });
  if (!answer.ok) throw await refusal(answer);
  return answer.text();
}

async function ask(url, options) {
  const answer = await reach(url, options);
  if (!answer.ok) throw await refusal(answer);
  if (answer.status === 204) return {};
  return answer.json();
}

async function reach(url, options) {
  try {
    return await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: t("error.unreachable"), todo: t("error.unreachable.todo") });
  }
}

async function refusal(answer) {
  let said = {};
  try {
    said = (await answer.json()).error ?? {};
  } catch {
    // not from the API: use the HTTP status
  }
  const error = new ApiError(answer.status, said);
  if (answer.status === 401) window.dispatchEvent(new CustomEvent("rollq:login"));
  return error;
}

function ordered(method, body) {
  return { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

function queryText(query) {
  const said = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return said.length ? `?${new URLSearchParams(said.map(([name, value]) => [name, String(value)]))}` : "";
}
