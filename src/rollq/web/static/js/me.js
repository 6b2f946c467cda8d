// Who looks at the pages, and what they may do.

import { get, post } from "./api.js";

/** @type {{account: string, actions: string[], auth: string, group: string, version: string, unsafe: boolean} | null} */
let known = null;

/** Ask. Null when somebody has to log in first. */
export async function loadMe() {
  try {
    known = await get("/me");
  } catch (error) {
    if (error.status !== 401) throw error;
    known = null;
  }
  return known;
}

/** What is known of the one who looks. */
export const me = () => known;

/** Whether an action is allowed, as far as the page knows; the grid decides. */
export function can(action) {
  if (!known || !Array.isArray(known.actions)) return true;
  return known.actions.includes(action) || known.actions.includes("*");
}

/** Open a session. */
export async function login(token) {
  await post("/login", { token });
  return loadMe();
}

/** End the session. */
export async function logout() {
  await post("/logout");
  known = null;
}
