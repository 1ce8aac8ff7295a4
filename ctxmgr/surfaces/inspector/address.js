// What is shown, as the address says it: so it can be sent to somebody, and the browser's buttons work.
//
//   #/                      sessions
//   #/s/SESSION/turn/N      a prompt, taken apart
//   #/s/SESSION/objects/ID  what the session has met, and one object of it
//   #/s/SESSION/time        as of any moment

/** The parts of the address; one that no page of ours has made is the beginning. */
export function addressed() {
  try {
    return location.hash.split("/").map(decodeURIComponent);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return [];
  }
}

export function go(session, tab, rest = "") {
  const parts = ["#", "s", encodeURIComponent(session), tab, ...(rest ? [encodeURIComponent(rest)] : [])];
  location.hash = parts.join("/");
}
