// The inspector: which session, which turn, which panel. The address says it all, so that it can be
// sent to somebody and the browser's buttons work.
//
//   #/                      sessions
//   #/s/SESSION/turn/N      a prompt, taken apart
//   #/s/SESSION/objects/ID  what the session has met, and one object of it
//   #/s/SESSION/time        as of any moment

import { adoptToken, get, hear, onTokenNeeded } from "./api.js";
import { h, number, time, turnCount } from "./dom.js";
import { ObjectsPanel } from "./objects-panel.js";
import { Session } from "./session.js";
import { TimePanel } from "./time-panel.js";
import { Timeline } from "./timeline.js";
import { TurnPanel } from "./turn-panel.js";
import { VirtualList } from "./virtual-list.js";

const SESSION_ROW = 46;
const SESSIONS_AT_ONCE = 1_000;
const SESSIONS_QUIET_MS = 500;
const NOTICE_MS = 12_000;
const NOTICES_MAX = 3;
const THEME = "ctxmgr-theme";
const NO_SESSION = "There is no session in this store yet. `ctxmgr demo --store URL` makes one, and so does your harness.";
const TABS = [["turn", "Prompt"], ["objects", "Objects"], ["time", "As of"]];

const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    this.sessions = [];
    this.hint = "Loading…";
    this.list = new VirtualList({
      rowHeight: SESSION_ROW,
      draw: (each) => sessionRow(each),
      onChoose: (each) => go(each.session_id, "turn"),
      label: "Sessions",
    });
    byId("session-list").append(this.list.element);
    byId("session-filter").addEventListener("input", () => this.#listed());
  }

  async start() {
    onTokenNeeded(askForToken);
    addEventListener("hashchange", () => this.#route());
    this.#route();
    await this.open?.session.newest; // what was asked for comes before the list of all
    await this.#loadSessions();
    hear({
      onEvent: (event) => this.#heard(event),
      onState: (live) => this.#connected(live),
      signal: new AbortController().signal,
    }).catch(fault);
  }

  async #loadSessions() {
    const found = [];
    let cursor = null;
    try {
      do {
        const page = await get("/sessions", { limit: SESSIONS_AT_ONCE, cursor });
        found.push(...page.sessions);
        cursor = page.cursor;
      } while (cursor);
    } catch (error) {
      this.hint = error.status === 403 ? "This token opens one session: its address is #/s/SESSION/turn." : error.message;
      if (error.status !== 403 || !this.open) fault(error); // a token of one session lists none
      if (!this.open) this.#welcome();
      return;
    }
    this.sessions = found.sort((one, other) => other.last_activity - one.last_activity);
    this.hint = this.sessions.length ? "Choose a session." : NO_SESSION;
    this.#listed();
    if (!this.open) this.#welcome();
  }

  #listed() {
    const wanted = byId("session-filter").value.toLowerCase();
    const shown = this.sessions.filter((each) => !wanted || each.session_id.toLowerCase().includes(wanted));
    this.list.show(shown, { key: (each) => each.session_id });
    const at = shown.findIndex((each) => each.session_id === this.open?.session.id);
    if (at !== this.list.chosen) this.list.mark(at);
  }

  #welcome() {
    byId("main").replaceChildren(h("p", { class: "hint faint" }, this.hint));
  }

  /** After a while without connection anything may have happened. */
  #connected(live) {
    showLive(live);
    const { session } = this.open ?? {};
    if (live) session?.hear({ name: "turn_finished", data: { session_id: session.id } });
    if (live) this.#sessionsSoon();
  }

  #heard(event) {
    if (event.id === null) return; // how the stream ends is no event of the store
    const { open } = this;
    if (open && this.#isAbout(event.data, open.session.id)) open.session.hear(event);
    this.#sessionsSoon();
  }

  #isAbout({ session_id: id, chat_ref: chat, object_id: objectId }, open) {
    if (id ?? chat) return id === open || chat === `chat:${open}`;
    return this.open.panels.objects.knows(objectId);
  }

  /** One load at a time; what is told meanwhile makes for one more. */
  #sessionsSoon() {
    this.more = true;
    this.soon ??= setTimeout(async () => {
      this.more = false;
      await this.#loadSessions();
      this.soon = null;
      if (this.more) this.#sessionsSoon();
    }, SESSIONS_QUIET_MS);
  }

  #route() {
    adoptToken();
    const [, place, id, tab, ...rest] = addressed();
    if (place !== "s" || !id) {
      this.open?.close();
      this.open = null;
      this.#listed();
      this.#welcome();
      return;
    }
    if (this.open?.session.id !== id) {
      this.open?.close();
      this.open = new OpenSession(id);
      byId("main").replaceChildren(this.open.element);
      this.open.load();
      this.#listed();
    }
    this.open.show(tab || "turn", rest.join("/"));
  }
}

class OpenSession {
  constructor(id) {
    this.session = new Session(id);
    this.timeline = new Timeline(this.session, { onTurn: (turn) => turn && this.#toTurn(turn) });
    const onObject = (objectId, { stay = false } = {}) => {
      this.objectId = objectId;
      if (!stay) go(id, "objects", objectId);
    };
    this.panels = {
      turn: new TurnPanel(this.session, { onObject, onFault: fault }),
      objects: new ObjectsPanel(this.session, { onObject, onFault: fault }),
      time: new TimePanel(this.session, { onFault: fault }),
    };
    this.head = h("header", { class: "session-head" }, h("h1", {}, id));
    this.tabs = h("div", { class: "tabs", role: "tablist" }, ...TABS.map(([name, label]) => this.#tab(name, label)));
    this.place = h("div", { class: "place" });
    this.element = h("div", { class: "session" }, this.head, this.timeline.element, this.tabs, this.place);
    this.session.addEventListener("overview", () => this.#overview());
    this.session.addEventListener("timeline", () => this.#shown());
    this.session.addEventListener("fault", ({ detail }) => fault(detail));
    this.turn = null;
  }

  async load() {
    try {
      await this.session.load();
    } catch (error) {
      if (error.name === "AbortError") return;
      fault(error);
      if (!this.session.entries.length) {
        this.element.append(h("p", { class: "hint bad" }, error.message, " ", error.next ?? ""));
        this.place.remove();
      }
    }
  }

  close() {
    this.session.close();
  }

  show(tab, rest) {
    this.tab = tab in this.panels ? tab : "turn";
    if (this.tab === "turn") this.turn = Number(rest) || null;
    if (this.tab === "objects") this.objectId = rest || null;
    [...this.tabs.children].forEach((each) => each.setAttribute("aria-selected", each.dataset.tab === this.tab ? "true" : "false"));
    const panel = this.panels[this.tab].element;
    if (this.place.firstChild !== panel) this.place.replaceChildren(panel); // put there again it would lose focus and place
    if (this.tab !== "objects") this.panels.objects.hide();
    this.#shown();
  }

  /** Do what a key means here; tell whether it meant anything. */
  key(name) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    const tabs = { 1: "turn", 2: "objects", 3: "time" };
    if (name in steps) this.#toTurn(this.chosen + steps[name]);
    else if (name === "Home") this.#toTurn(1);
    else if (name === "End") this.#toTurn(this.session.last);
    else if (name === "b" || name === "B") this.#toTurn(this.timeline.nextBreak(name === "b" ? 1 : -1));
    else if (name === "+" || name === "=") this.timeline.zoom(1.6);
    else if (name === "-") this.timeline.zoom(1 / 1.6);
    else if (name === "0") this.timeline.zoom(0);
    else if (name in tabs) this.#go(tabs[name]);
    else if (name === "c" && this.tab === "turn") this.panels.turn.toggleChanges();
    else if (name === "j" || name === "k") this.#list()?.step(name === "j" ? 1 : -1);
    else if (name === "/") (this.#panelFilter() ?? byId("session-filter")).focus();
    else if (name === "a" && this.tab === "objects") this.panels.objects.view.toggleActive();
    else if (name === "p" && this.tab === "objects") this.panels.objects.view.togglePinned();
    else return false;
    return true;
  }

  /** The turn that is shown: the chosen one, or the last. */
  get chosen() {
    return this.turn ?? this.session.last;
  }

  #shown() {
    const turn = Math.min(this.chosen, this.session.last);
    this.timeline.choose(turn);
    if (this.tab === "turn") this.panels.turn.show(turn);
    if (this.tab === "objects") this.panels.objects.show(this.objectId).catch(fault);
    if (this.tab === "time" && this.session.overview) this.panels.time.show(turn);
  }

  #toTurn(turn) {
    if (!turn || turn < 1 || turn > this.session.last) return;
    if (this.tab === "turn") return go(this.session.id, "turn", String(turn));
    this.turn = turn;
    this.timeline.choose(turn);
    if (this.tab === "time") this.panels.time.goTo(turn);
  }

  #go(tab) {
    go(this.session.id, tab, tab === "turn" ? String(this.turn ?? "") : tab === "objects" ? (this.objectId ?? "") : "");
  }

  #tab(name, label) {
    return h("button", { type: "button", role: "tab", "data-tab": name, onclick: () => this.#go(name) }, label);
  }

  #list() {
    return { turn: this.panels.turn.list, objects: this.panels.objects.list }[this.tab];
  }

  #panelFilter() {
    return { turn: this.panels.turn.filter, objects: this.panels.objects.filter }[this.tab];
  }

  #overview() {
    const { overview } = this.session;
    const facts = [
      overview.state,
      overview.forked_from ? `forked from ${overview.forked_from}` : null,
      turnCount(overview.turns),
      `${number(overview.active)} in full`,
      `${number(overview.metadata)} in one line`,
      `${number(overview.indexed)} not shown`,
      `${number(overview.pinned)} pinned`,
      `${time(overview.started)} – ${time(overview.last_activity)}`,
    ];
    this.head.replaceChildren(
      h("h1", {}, overview.session_id),
      h("div", { class: "facts" }, ...facts.filter(Boolean).map((each) => h("span", {}, each))),
    );
    if (this.tab === "time") this.panels.time.show(this.chosen);
  }
}

/** The parts of the address; one that no page of ours has made is the beginning. */
function addressed() {
  try {
    return location.hash.split("/").map(decodeURIComponent);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return [];
  }
}

function go(session, tab, rest = "") {
  const parts = ["#", "s", encodeURIComponent(session), tab, ...(rest ? [encodeURIComponent(rest)] : [])];
  location.hash = parts.join("/");
}

function sessionRow(each) {
  return [
    h("span", { class: "name", title: each.session_id }, each.session_id),
    h("span", { class: `state ${each.state}` }, each.state === "active" ? "" : each.state),
    h("span", { class: "faint" }, `${turnCount(each.turns)}, ${time(each.last_activity)}`),
  ];
}

/** Tell a person what went wrong, and what to do. */
function fault(error) {
  console.warn(error);
  const notice = h("div", { class: "notice" }, h("b", {}, error.message), error.next ? h("span", {}, error.next) : null);
  const place = byId("notices");
  [...place.children].find((each) => each.textContent === notice.textContent)?.remove();
  place.append(notice);
  while (place.children.length > NOTICES_MAX) place.firstChild.remove();
  setTimeout(() => notice.remove(), NOTICE_MS);
}

function showLive(live) {
  const mark = byId("live");
  mark.textContent = live ? "●" : "○";
  mark.className = live ? "live" : "";
  mark.setAttribute("aria-label", live ? "live" : "not connected");
  mark.title = live ? "live: changes show by themselves" : "not connected; trying again";
}

let asking = null;

/** Ask once for all who need it. */
function askForToken(message) {
  asking ??= new Promise((done) => {
    const dialog = byId("token-dialog");
    byId("token-fault").textContent = message;
    byId("token").value = "";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        done(byId("token").value.trim() || null);
      },
      { once: true },
    );
  });
  return asking;
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
  app.open?.timeline.draw();
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) return typing.blur();
  if (typing?.type === "range" && !"123c?t".includes(event.key)) return null;
  const busy = typing && typing.type !== "range" && typing.type !== "checkbox";
  if (busy || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return null;
  if (event.key === "?") byId("keys").showModal();
  else if (event.key === "t") toggleTheme();
  else if (app.open ? !app.open.key(event.key) : !sessionKey(event.key)) return null;
  return event.preventDefault();
}

function sessionKey(name) {
  if (name === "j" || name === "k") app.list.step(name === "j" ? 1 : -1);
  else if (name === "/") byId("session-filter").focus();
  else return false;
  return true;
}

const app = new App();
const kept = localStorage.getItem(THEME);
if (kept) setTheme(kept);
byId("theme").addEventListener("click", toggleTheme);
byId("help").addEventListener("click", () => byId("keys").showModal());
addEventListener("keydown", onKey);
app.start();
