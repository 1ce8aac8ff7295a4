// One session: its overview and its timeline, kept up to date by events. Dispatches:
//
//   timeline   turns added or replaced         overview   counts, state or sets loaded
//   objects    levels or versions may differ   fault      loading failed

import { get } from "./api.js";
import { SECTIONS, sectionName, shortId } from "./dom.js";

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
    this.sections = [];
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
      await this.#loadOverview();
      while (before !== null) {
        const page = await this.#timeline({ limit: TURNS_AT_ONCE, before });
        this.#adopt(page);
        before = page.earlier;
      }
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

  #adopt({ entries, sections, turns }) {
    this.turns = Math.max(this.turns, turns);
    const named = entries.map(({ tokens, ...rest }) => ({
      ...rest,
      tokens: Object.fromEntries(sections.map((section, at) => [section, tokens[at]])),
    }));
    const isOlder = named.length && this.entries.length && named[0].turn < this.entries[0].turn;
    this.entries = isOlder ? [...named, ...this.entries] : [...this.entries, ...named];
    const present = new Set([...this.sections, ...sections]);
    this.sections = Object.keys(SECTIONS).filter((section) => present.has(section));
    this.#emit("timeline");
  }

  #emit(what, detail = null) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}

/** Describe in words what happened to the cached prefix of a prompt. */
export function cacheOutcome(entry) {
  if (entry.change === "first") return "first prompt: nothing cached yet";
  if (isWhole(entry)) return "prefix intact: extends the previous prompt";
  const where = [entry.section && sectionName(entry.section), entry.object_id && shortId(entry.object_id)].filter(Boolean).join(", ");
  return `prefix ${WORDS[entry.change] ?? entry.change}${where ? ` in ${where}` : ""}`;
}

export const isWhole = (entry) => entry.change === "appended";
export const isBreak = (entry) => !isWhole(entry) && entry.change !== "first";

const WORDS = {
  new: "broken by new content",
  changed: "broken by a change",
  removed: "broken by a removal",
  moved: "broken by a move",
};
