// The URL fragment names what is shown, so that links can be shared and back and forward work.
//
//   #/                      sessions
//   #/s/SESSION/turn/N      one prompt in detail
//   #/s/SESSION/objects/ID  objects the session has seen, and one of them in detail
//   #/s/SESSION/time        the session as of any moment

/** The parts of the fragment; a malformed one counts as empty. */
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
