// What is known of one session: its overview and its timeline. Kept up to date by events.
//
//   timeline   the turns are another       overview   counts, state, sets
//   objects    levels or versions changed  fault      something could not be loaded

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

  /** As the server names it without doubt: a session's own id may begin with ``session:``. */
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

  /** Load all; the newest turns are shown before anything else is asked for. */
  load() {
    this.loading = this.#load();
    return this.loading;
  }

  /** Take note of an event, and load what it concerns once it is quiet. */
  hear(event) {
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

  /** Load what is new; what is told meanwhile is loaded after that. */
  async #catchUp() {
    const { turned } = this;
    Object.assign(this, { soon: null, catching: true, stale: false, turned: false });
    try {
      await this.loading;
      await this.#loadOverview();
      if (turned) await this.#newTurns();
      this.#tell("objects");
    } catch (error) {
      this.turned ||= turned;
      if (!this.ending.signal.aborted) this.#tell("fault", error);
    } finally {
      this.catching = false;
    }
    if (this.stale) this.#soon();
  }

  async #newTurns() {
    // as many as there may be, and one that is known, with which the first of them is compared
    const known = this.last;
    const limit = Math.min(Math.max(2, this.overview.turns - known + 1), TURNS_AT_ONCE);
    const found = await this.#timeline({ limit });
    const more = found.entries.filter((each) => each.turn > known);
    if (known && more.length && more[0].turn !== known + 1) return this.#startAgain();
    this.#adopt({ ...found, entries: more });
    return null;
  }

  async #startAgain() {
    this.entries = [];
    await this.load();
  }

  async #loadOverview() {
    this.overview = await get("/show", { name: this.ref }, this.ending);
    this.#tell("overview");
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
    const known = new Set([...this.sections, ...sections]);
    this.sections = Object.keys(SECTIONS).filter((each) => known.has(each));
    this.#tell("timeline");
  }

  #tell(what, detail = null) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}

/** Tell in words what became of the cached prefix of a prompt. */
export function fate(entry) {
  if (entry.change === "first") return "first prompt: nothing was cached";
  if (isWhole(entry)) return "the prompt before is its beginning";
  const where = [entry.section && sectionName(entry.section), entry.object_id && shortId(entry.object_id)].filter(Boolean).join(", ");
  return `prefix ${WORDS[entry.change] ?? entry.change}${where ? ` in ${where}` : ""}`;
}

export const isWhole = (entry) => entry.change === "appended";
export const isBreak = (entry) => !isWhole(entry) && entry.change !== "first";

const WORDS = {
  new: "broken by something new",
  changed: "broken by a change",
  removed: "broken by a removal",
  moved: "broken by a move",
};
