// Requests the newest turns of the session in the address while the modules of the pages load.

import { addressed } from "./address.js";
import { get } from "./api.js";

export const TURNS_FIRST = 50;

const [page, id] = addressed();
let answer = page === "s" && id ? get("/timeline", { session: `session:${id}`, limit: TURNS_FIRST }) : null;
answer?.catch(() => null); // whoever takes it handles a failure

/** Return the answer, once; null if it was for another session, or failed: then it is requested again. */
export async function takeNewest(session) {
  const taken = session === id ? answer : null;
  answer = null;
  return (await taken?.catch(() => null)) ?? null;
}
