// The URL fragment names what is shown, so that links can be shared and back and forward work.
//
//   #/                           all sessions
//   #/s/SESSION/turn/N           one prompt in detail
//   #/s/SESSION/PANEL/...        another panel of a session: calls, objects, find, time, forks
//   #/experience/SESSION/A-B      what was recorded of a session, at some ticks
//   #/compare/SESSION/OTHER      two sessions side by side
//   #/knowledge/PANEL/...        notes, topics, compiled, review
//   #/memory/PANEL/...           tiers, all, contradictions, one
//   #/audit/SESSION              the audit log, for reviewers; without a session, all of it

/** The parts of the fragment after "#"; a malformed one counts as empty. */
export function addressed() {
  try {
    return location.hash.split("/").slice(1).map(decodeURIComponent);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return [];
  }
}

/** The address of a page; empty parts at the end are left out. */
export function address(...parts) {
  while (parts.length && !parts.at(-1)) parts.pop();
  return ["#", ...parts.map((part) => encodeURIComponent(String(part)))].join("/");
}

export const toSession = (id, panel = "turn", rest = "") => address("s", id, panel, rest);

export const toAudit = (id) => address("audit", id);

export const toProxy = (id) => address("proxy", id);

export const toExperience = (id) => address("experience", id);

export function go(...parts) {
  location.hash = address(...parts);
}
