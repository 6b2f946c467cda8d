// The HTTP interface: JSON in and out, errors with a code and with what to do.

import { t } from "./words.js";

const BASE = "/api/v1";

/** A request that did not do what it was for. */
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
 * Ask for a document.
 * @param {string} path below `/api/v1`
 * @param {Record<string, any>} [query] what is empty is left out
 * @param {AbortSignal} [signal]
 */
export const get = (path, query = {}, signal = undefined) =>
  ask(`${BASE}${path}${queryText(query)}`, { signal });

/** Order something. */
export const post = (path, body = {}) => ask(`${BASE}${path}`, ordered("POST", body));

/** Replace something. */
export const put = (path, body) => ask(`${BASE}${path}`, ordered("PUT", body));

/** Remove something. */
export const remove = (path) => ask(`${BASE}${path}`, { method: "DELETE" });

/** Order something with files. @param {FormData} form */
export const postForm = (path, form) => ask(`${BASE}${path}`, { method: "POST", body: form });

/** The address of something that a browser loads by itself: a stream, a download. */
export const address = (path, query = {}) => `${BASE}${path}${queryText(query)}`;

/** A part of a path that comes from data. */
export const part = (text) => encodeURIComponent(text);

/** The text that a resource holds, from a byte on: `{text, next}`. */
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
    // not from the interface: the status has to do
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
