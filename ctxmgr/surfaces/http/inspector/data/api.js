// Requests to the server and its event stream. Keeps the token until the tab is closed.

const TOKEN = "ctxmgr-token";
const PAGE_MAX = 1_000;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 15_000;

/** An error answer of the server: its message, and what to do about it. */
export class Refusal extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.next = error.next;
  }
}

let askForToken = async () => null;

/** Set the function that asks the user for a token when the server requires one. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** Move a token from the address, where it would be visible and kept in the history, to storage. */
export function adoptToken() {
  const match = /(?:^#|&)token=([\w.~-]+)/.exec(location.hash);
  if (match) {
    sessionStorage.setItem(TOKEN, match[1]);
    history.replaceState(null, "", `${location.pathname}#/`);
  }
}

/** Request something that only reads. */
export function get(path, query = {}, { signal } = {}) {
  return request(withQuery(path, query), { signal });
}

/** Request every page of a list, and return the entries under a name. */
export async function getAll(path, name, query = {}, options = {}) {
  const entries = [];
  let cursor = null;
  do {
    const page = await get(path, { ...query, limit: PAGE_MAX, cursor }, options);
    entries.push(...page[name]);
    cursor = page.cursor;
  } while (cursor);
  return entries;
}

/** Request a change. */
export function post(path, body) {
  return request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Request something with another token than that of this page; it is not asked for again. */
export async function requestAs(token, path, body = {}) {
  waitFor(1);
  try {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const response = await reached(path, { method: "POST", headers, body: JSON.stringify(body), cache: "no-store" });
    if (!response.ok) throw await refusal(response);
    return JSON.parse(await response.text(), withInstants);
  } finally {
    waitFor(-1);
  }
}

/** Receive every event from now on, reconnecting until the signal aborts. */
export async function subscribe({ onEvent, onState, signal }) {
  let last = null;
  let wait = RETRY_FIRST_MS;
  while (!signal.aborted) {
    try {
      const headers = { ...authorization(), ...(last ? { "last-event-id": last } : {}) };
      const response = await reached("/events", { headers, signal, cache: "no-store" });
      if (!response.ok) throw await refusal(response);
      onState(true);
      wait = RETRY_FIRST_MS;
      for await (const event of events(response.body)) {
        last = event.id ?? last;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refusal || error instanceof TypeError)) throw error;
    }
    onState(false);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, RETRY_MAX_MS);
  }
}

let waiting = 0;

/** Count the requests under way; the progress line is visible while there are any. */
function waitFor(change) {
  waiting += change;
  document.documentElement.toggleAttribute("data-busy", waiting > 0);
}

const INSTANTS = new Set([
  "valid_time", "system_time", "valid_from", "valid_to", "asked_valid_time", "asked_system_time",
  "started", "last_activity", "answered", "time", "start", "end",
]);
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Read the instants of a result, which are ISO 8601, as milliseconds. */
function withInstants(name, value) {
  return typeof value === "string" && INSTANTS.has(name) && ISO.test(value) ? Date.parse(value) : value;
}

async function request(path, options) {
  waitFor(1);
  try {
    return await answered(path, options);
  } finally {
    waitFor(-1);
  }
}

async function answered(path, options) {
  for (;;) {
    const headers = { ...options.headers, ...authorization() };
    const response = await reached(path, { ...options, headers, cache: "no-store" });
    if (response.ok) return JSON.parse(await response.text(), withInstants);
    const refused = await refusal(response);
    if (response.status !== 401) throw refused;
    const token = await askForToken(refused.message);
    if (token === null) throw refused;
    sessionStorage.setItem(TOKEN, token);
  }
}

/** Fetch, and turn a network failure into a Refusal; the browser reports only a TypeError. */
async function reached(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Refusal(0, {
      code: "unavailable",
      message: "the server cannot be reached",
      next: "start `ctxmgr serve` again; this page reconnects automatically",
    });
  }
}

function authorization() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function refusal(response) {
  const text = await response.text();
  try {
    return new Refusal(response.status, JSON.parse(text).error);
  } catch {
    // a proxy in between may answer with something other than JSON
    return new Refusal(response.status, { code: "error", message: `the server answered ${response.status}`, next: "" });
  }
}

function withQuery(path, query) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) words.set(name, value);
  }
  return words.size ? `${path}?${words}` : path;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const frames = pending.split("\n\n");
    pending = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(frame.split("\n").map(field));
      if (fields.data) yield { id: fields.id ?? null, name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

function field(line) {
  const at = line.indexOf(": ");
  return [line.slice(0, at), line.slice(at + 2)];
}
