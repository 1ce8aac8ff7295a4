// All sessions as a table, newest first, with totals. What each used is read row by row, for the
// rows in sight and the newest sessions; the totals say how many sessions they are of.

import { go } from "../data/address.js";
import { get } from "../data/api.js";
import { compact, count, money, number, percent, timeText, zone } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { VirtualList } from "../widgets/virtual-list.js";

const ROW_HEIGHT = 36;
const SESSIONS_FIRST = 100;
const SESSIONS_AT_ONCE = 1_000;
const COUNTED_FIRST = 100;
const AT_ONCE = 2;
const QUIET_MS = 500;

/** What sessions used, by id and last activity; kept while the page is open. */
const used = new Map();

export class HomePage {
  constructor() {
    this.sessions = null;
    this.total = 0;
    this.waiting = [];
    this.running = 0;
    this.ending = new AbortController();
    this.list = new VirtualList({ rowHeight: ROW_HEIGHT, draw: (session) => this.#row(session), onChoose: (session) => go("s", session.session_id, "turn"), onPaint: (visible) => this.#want(visible), label: "Sessions" });
    this.filter = h("input", { id: "session-filter", type: "search", placeholder: "Filter sessions", "aria-label": "Filter sessions", oninput: () => this.#listed() });
    this.totals = h("div", { class: "totals", role: "status" }, skeleton(1));
    this.table = h("div", { id: "session-list", class: "table" }, skeleton(8));
    this.element = h("div", { class: "home page" }, h("div", { class: "home-head" }, h("h1", {}, "Sessions"), this.totals, this.filter), this.table);
  }

  show() {}

  close() {
    this.ending.abort();
    clearTimeout(this.soon);
  }

  key(name) {
    if (name === "j" || name === "k") this.list.mark(Math.max(0, Math.min(this.list.items.length - 1, this.list.chosen + (name === "j" ? 1 : -1))));
    else if (name === "Enter" && this.list.item) go("s", this.list.item.session_id, "turn");
    else if (name === "/") this.filter.focus();
    else return false;
    return true;
  }

  /** Something changed: read the list again after a short pause. */
  notify() {
    this.soon ??= setTimeout(async () => {
      await this.load();
      this.soon = null;
    }, QUIET_MS);
  }

  reconnected() {
    this.notify();
  }

  async load() {
    const loaded = [];
    let cursor = null;
    try {
      do {
        const limit = loaded.length ? SESSIONS_AT_ONCE : SESSIONS_FIRST;
        const page = await get("/sessions", { limit, cursor }, this.ending);
        loaded.push(...page.sessions);
        this.total = page.total;
        cursor = page.cursor;
        if (!this.sessions || this.sessions.length <= loaded.length || !cursor) this.#adopt([...loaded]);
      } while (cursor);
    } catch (error) {
      if (error.name !== "AbortError") this.#failed(error);
    }
  }

  #failed(error) {
    const limited = error.status === 403;
    this.totals.replaceChildren();
    this.table.replaceChildren(h("p", { class: "hint faint" }, limited ? "This token is limited to one session. Open it at #/s/SESSION/turn." : error.message));
    fault(error);
  }

  #adopt(sessions) {
    this.sessions = sessions.sort((one, other) => other.last_activity - one.last_activity);
    if (!sessions.length) {
      this.totals.replaceChildren();
      this.filter.hidden = true;
      this.table.replaceChildren(firstSteps());
      return;
    }
    this.filter.hidden = false;
    if (this.list.element.parentElement !== this.table) this.table.replaceChildren(heads(), this.list.element);
    this.#listed();
    this.#want(sessions.slice(0, COUNTED_FIRST));
    this.#sum();
  }

  #listed() {
    if (!this.sessions) return;
    const wanted = this.filter.value.toLowerCase();
    const matching = this.sessions.filter((session) => !wanted || `${session.title ?? ""} ${session.session_id} ${usage(session)?.models?.join(" ") ?? ""}`.toLowerCase().includes(wanted));
    this.list.show(matching, { key: (session) => session.session_id });
  }

  /** Read what these sessions used before what others did. */
  #want(sessions) {
    const missing = sessions.filter((session) => !used.has(keyOf(session)));
    this.waiting = [...missing, ...this.waiting.filter((session) => !missing.includes(session))];
    while (this.running < AT_ONCE && this.waiting.length) this.#next();
  }

  async #next() {
    const session = this.waiting.shift();
    if (used.has(keyOf(session))) return;
    used.set(keyOf(session), null);
    this.running += 1;
    try {
      used.set(keyOf(session), await get("/usage", { session: `session:${session.session_id}` }, this.ending));
    } catch (error) {
      used.delete(keyOf(session));
      if (error.name === "AbortError") return;
      used.set(keyOf(session), { failed: error.message }); // one damaged session must not hide the others
    } finally {
      this.running -= 1;
    }
    this.list.refresh();
    this.#sum();
    this.#want([]);
  }

  #sum() {
    const known = this.sessions.map(usage).filter((each) => each && !each.failed);
    const sum = (name) => known.reduce((all, each) => all + (each[name] ?? 0), 0);
    const turns = this.sessions.reduce((all, session) => all + session.turns, 0);
    const priced = known.filter((each) => each.usd != null).length;
    const of = known.length < this.total ? ` in ${number(known.length)} of ${count(this.total, "session")}` : "";
    const figures = [
      ["sessions", number(this.total)],
      ["turns", this.sessions.length < this.total ? `${number(turns)}+` : number(turns)],
      [`tokens sent${of}`, compact(sum("prompt_tokens"))],
      ["reuse", percent(sum("cached_tokens"), sum("prompt_tokens"))],
      ...(priced ? [[`cost${priced < this.total ? ` in ${number(priced)}` : ""}`, money(sum("usd"))]] : []),
    ];
    const rest = this.sessions.filter((session) => !used.has(keyOf(session)));
    this.totals.replaceChildren(
      ...figures.map(([name, value]) => h("span", {}, h("b", {}, value), ` ${name}`)),
      ...(rest.length && !this.waiting.length ? [h("button", { type: "button", class: "quiet", onclick: () => this.#want(rest) }, "Count all")] : []),
    );
  }

  #row(session) {
    const figures = usage(session);
    const waiting = figures === null || figures === undefined;
    const cell = (text) => h("span", { class: "figure" }, waiting ? h("i", { class: "ghost" }) : figures.failed ? "–" : text(figures));
    return [
      h(
        "span",
        { class: "name", title: session.session_id },
        session.title ? h("b", {}, session.title, " ") : "",
        session.session_id,
        session.parent ? h("span", { class: "faint" }, ` ↳ fork of ${session.parent} at turn ${session.parent_turn}`) : "",
      ),
      h("span", { class: "name model" }, waiting ? "" : figures.failed ? figures.failed : figures.models.join(", ") || "–"),
      h("span", { class: "figure" }, number(session.turns)),
      cell(({ prompt_tokens: tokens }) => compact(tokens)),
      cell(({ cached_tokens: cached, prompt_tokens: tokens, reported }) => h("span", { title: reported ? "reported by the provider" : "reusable: begins like the prompt before" }, percent(cached, tokens))),
      cell(({ usd }) => money(usd)),
      h("span", { class: "when", title: new Date(session.last_activity).toISOString().replace("T", " ").replace("Z", " UTC") }, timeText(session.last_activity, { withZone: false })),
      h("span", { class: `state ${session.state}` }, session.state === "active" ? "" : session.state),
    ];
  }
}

const keyOf = (session) => `${session.session_id} ${session.last_activity}`;
const usage = (session) => used.get(keyOf(session));

function heads() {
  const names = ["Session", "Model", "Turns", "Tokens", "Reuse", "Cost", `Last activity (${zone()})`, "State"];
  return h("div", { class: "heads", "aria-hidden": "true" }, ...names.map((name, at) => h("span", { class: at > 1 && at < 6 ? "figure" : "" }, name)));
}

function firstSteps() {
  return h(
    "div",
    { class: "hint first-steps" },
    h("h2", {}, "This store has no sessions yet"),
    h("p", {}, "Make the first one, with the store of this server in place of URL:"),
    h("dl", {}, h("dt", {}, h("code", {}, "ctxmgr demo --store URL")), h("dd", {}, "watch a scripted agent fix a small project; needs no model"), h("dt", {}, h("code", {}, 'ctxmgr run "make the tests pass" --workspace . --model NAME --store URL')), h("dd", {}, "let a model work in a folder"), h("dt", {}, h("code", {}, "ctxmgr import-recorded FILE --store URL")), h("dd", {}, "look at a session that Claude Code, Codex or another agent recorded")),
    h("p", { class: "faint" }, "It appears here by itself."),
  );
}
