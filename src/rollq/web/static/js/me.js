// The user, and the user's rights.

import { get, post } from "./api.js";

/** @type {{account: string, actions: string[], auth: string, group: string, version: string, unsafe: boolean} | null} */
let known = null;

/** Load the user. Null if a login is required. */
export async function loadMe() {
  try {
    known = await get("/me");
  } catch (error) {
    if (error.status !== 401) throw error;
    known = null;
  }
  return known;
}

/** The loaded user. */
export const me = () => known;

/** Whether an action is allowed, as far as the page knows; the grid decides. */
export function can(action) {
  if (!known || !Array.isArray(known.actions)) return true;
  return known.actions.includes(action) || known.actions.includes("*");
}

/** Log in. */
export async function login(token) {
  await post("/login", { token });
  return loadMe();
}

/** Log out. */
export async function logout() {
  await post("/logout");
  known = null;
}
