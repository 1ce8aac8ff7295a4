// One session: its overview and its timeline, kept up to date by events. Dispatches:
//
//   timeline   turns added or replaced         overview   counts, state or sets loaded
//   objects    levels or versions may differ   fault      loading failed

import { get } from "./api.js";
import { KINDS, count, number, percent, shortId } from "./words.js";

const TURNS_FIRST = 50;
const TURNS_AT_ONCE = 1_000;
const QUIET_MS = 150;

export class Session extends EventTarget {
  constructor(id) {
    super();
    this.id = id;
    this.overview = null;
    this.entries = [];
    this.turns = 0;
    this.known = false; // whether the number of turns has been read
    this.kinds = [];
    this.ending = new AbortController();
    this.newest = new Promise((done) => (this.#gotNewest = done));
  }

  #gotNewest;

  /** The unambiguous name for the server: a session id may itself begin with ``session:``. */
  get ref() {
    return `session:${this.id}`;
  }

  /** The last turn, or 0. */
  get last() {
    return this.entries.at(-1)?.turn ?? 0;
  }

  /** Whether all turns have been read, so that sums are those of the session. */
  get complete() {
    return this.known && this.entries.length >= this.turns;
  }

  entry(turn) {
    const at = turn - (this.entries[0]?.turn ?? 1);
    return this.entries[at] ?? null;
  }

  /** Load everything; the newest turns are shown before anything else is requested. */
  load() {
    this.loading = this.#load();
    return this.loading;
  }

  /** Note an event; what it affects is loaded after a short pause without events. */
  notify(event) {
    this.turned ||= event.name === "turn_finished" && event.data.session_id === this.id;
    this.stale = true;
    this.#soon();
  }

  /** Note what was written about a turn. */
  commented(turn, comment) {
    this.entry(turn).comment = comment;
    this.#emit("timeline");
  }

  close() {
    this.ending.abort();
    clearTimeout(this.soon);
  }

  async #load() {
    try {
      const newest = await this.#timeline({ limit: TURNS_FIRST });
      this.#adopt(newest);
      this.#gotNewest();
      let before = newest.earlier;
      while (before !== null) {
        const page = await this.#timeline({ limit: TURNS_AT_ONCE, before });
        this.#adopt(page);
        before = page.earlier;
      }
      await this.#loadOverview();
    } finally {
      this.#gotNewest();
    }
  }

  #soon() {
    if (!this.catching && !this.ending.signal.aborted) this.soon ??= setTimeout(() => this.#catchUp(), QUIET_MS);
  }

  /** Load what is new; events that arrive meanwhile cause another load. */
  async #catchUp() {
    const { turned } = this;
    Object.assign(this, { soon: null, catching: true, stale: false, turned: false });
    try {
      await this.loading;
      await this.#loadOverview();
      if (turned) await this.#newTurns();
      this.#emit("objects");
    } catch (error) {
      this.turned ||= turned;
      if (!this.ending.signal.aborted) this.#emit("fault", error);
    } finally {
      this.catching = false;
    }
    if (this.stale) this.#soon();
  }

  async #newTurns() {
    // all turns that can be new, plus one known turn to detect a gap
    const lastKnown = this.last;
    const limit = Math.min(Math.max(2, this.overview.turns - lastKnown + 1), TURNS_AT_ONCE);
    const page = await this.#timeline({ limit });
    const more = page.entries.filter((entry) => entry.turn > lastKnown);
    if (lastKnown && more.length && more[0].turn !== lastKnown + 1) return this.#startAgain();
    this.#adopt({ ...page, entries: more });
    return null;
  }

  async #startAgain() {
    this.entries = [];
    await this.load();
  }

  async #loadOverview() {
    this.overview = await get("/show", { name: this.ref }, this.ending);
    this.#emit("overview");
  }

  #timeline(query) {
    return get("/timeline", { session: this.ref, ...query }, this.ending);
  }

  #adopt({ entries, kinds, turns }) {
    this.known = true;
    this.turns = Math.max(this.turns, turns);
    const named = entries.map((entry) => ({ ...entry, shown: Object.fromEntries(kinds.map((kind, at) => [kind, entry.shown[at]])) }));
    const isOlder = named.length && this.entries.length && named[0].turn < this.entries[0].turn;
    this.entries = isOlder ? [...named, ...this.entries] : [...this.entries, ...named];
    const present = new Set([...this.kinds, ...kinds]);
    this.kinds = Object.keys(KINDS).filter((kind) => present.has(kind));
    this.#emit("timeline");
  }

  #emit(what, detail = null) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}

export const isBreak = (entry) => entry.change !== "appended" && entry.change !== "first";

/** How much a break costs, as a word for its colour: a few tokens sent again are not an alarm. */
export function breakTone(entry) {
  if (!isBreak(entry)) return "good";
  const share = entry.prompt_tokens ? entry.rewritten_tokens / entry.prompt_tokens : 0;
  return share < 0.05 ? "faint" : share < 0.25 ? "warn" : "bad";
}

/** Say what a prompt has in common with the one before; `nameOf` may know an object by name. */
export function cacheOutcome(entry, nameOf = shortId) {
  if (entry.change === "first") return "first prompt";
  if (!isBreak(entry)) return "only adds to the prompt before";
  const where = entry.object_id ? ` at ${nameOf(entry.object_id)}` : "";
  const again = `${count(entry.rewritten_tokens, "token")} sent again (${percent(entry.rewritten_tokens, entry.prompt_tokens)})`;
  return `${WORDS[entry.change] ?? entry.change}${where}: ${again}`;
}

const WORDS = {
  new: "new text was inserted",
  changed: "earlier text changed",
  removed: "earlier text was removed",
  moved: "earlier text moved",
};

/** What a turn cost, reported or estimated; null if neither is known. */
export const costOf = (entry) => entry.usd ?? entry.estimated_usd ?? null;

/** Milliseconds until the answer, and from there to the end of the turn; null where not recorded. */
export function timesOf(session, entry) {
  const before = session.entry(entry.turn - 1)?.valid_time ?? null;
  const { answered, valid_time: end } = entry;
  if (answered === null || before === null || answered < before || answered > end) return null;
  return { model: answered - before, tools: end - answered };
}

/** The sums of the turns that are loaded, in words. */
export function sums(session) {
  const { entries } = session;
  const sum = (name) => entries.reduce((all, entry) => all + entry[name], 0);
  const [tokens, cached] = [sum("prompt_tokens"), sum("cached_tokens")];
  const breaks = entries.filter(isBreak).length;
  const failed = sum("failed");
  return [
    session.complete ? null : `newest ${number(entries.length)} of ${count(session.turns, "turn")}`,
    `${number(tokens)} tokens sent`,
    `${percent(cached, tokens)} reusable`,
    count(breaks, "break"),
    failed ? `${count(failed, "failed tool call")}` : null,
  ].filter(Boolean);
}
