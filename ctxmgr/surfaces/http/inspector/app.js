// The inspector: session list, open session, server events and keyboard shortcuts.

import { addressed, go } from "./address.js";
import { adoptToken, get, onTokenNeeded, subscribe } from "./api.js";
import { h, time, turnCount } from "./dom.js";
import { fault } from "./notices.js";
import { OpenSession } from "./open-session.js";
import { VirtualList } from "./virtual-list.js";

const SESSION_ROW = 46;
const SESSIONS_AT_ONCE = 1_000;
const SESSIONS_QUIET_MS = 500;
const THEME = "ctxmgr-theme";
const NO_SESSION = "This store has no sessions yet. Create one with `ctxmgr demo --store URL` or from your harness.";

const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    this.sessions = [];
    this.hint = "Loading…";
    this.list = new VirtualList({
      rowHeight: SESSION_ROW,
      draw: (session) => sessionRow(session),
      onChoose: (session) => go(session.session_id, "turn"),
      label: "Sessions",
    });
    byId("session-list").append(this.list.element);
    byId("session-filter").addEventListener("input", () => this.#listed());
  }

  async start() {
    onTokenNeeded(askForToken);
    addEventListener("hashchange", () => this.#route());
    this.#route();
    await this.open?.session.newest; // the requested session loads before the session list
    await this.#loadSessions();
    subscribe({
      onEvent: (event) => this.#onEvent(event),
      onState: (live) => this.#connected(live),
      signal: new AbortController().signal,
    }).catch(fault);
  }

  async #loadSessions() {
    const loaded = [];
    let cursor = null;
    try {
      do {
        const page = await get("/sessions", { limit: SESSIONS_AT_ONCE, cursor });
        loaded.push(...page.sessions);
        cursor = page.cursor;
      } while (cursor);
    } catch (error) {
      this.hint = error.status === 403 ? "This token is limited to one session. Open it at #/s/SESSION/turn." : error.message;
      if (error.status !== 403 || !this.open) fault(error); // a token limited to one session may not list sessions
      if (!this.open) this.#welcome();
      return;
    }
    this.sessions = loaded.sort((one, other) => other.last_activity - one.last_activity);
    this.hint = this.sessions.length ? "Select a session." : NO_SESSION;
    this.#listed();
    if (!this.open) this.#welcome();
  }

  #listed() {
    const wanted = byId("session-filter").value.toLowerCase();
    const matching = this.sessions.filter((session) => !wanted || session.session_id.toLowerCase().includes(wanted));
    this.list.show(matching, { key: (session) => session.session_id });
    const at = matching.findIndex((session) => session.session_id === this.open?.session.id);
    if (at !== this.list.chosen) this.list.mark(at);
  }

  #welcome() {
    byId("main").replaceChildren(h("p", { class: "hint faint" }, this.hint));
  }

  /** Reload after reconnecting: events may have been missed. */
  #connected(live) {
    showLive(live);
    const { session } = this.open ?? {};
    if (live) session?.notify({ name: "turn_finished", data: { session_id: session.id } });
    if (live) this.#sessionsSoon();
  }

  #onEvent(event) {
    if (event.id === null) return; // the end of the stream is not a store event
    const { open } = this;
    if (open && this.#isAbout(event.data, open.session.id)) open.session.notify(event);
    this.#sessionsSoon();
  }

  #isAbout({ session_id: id, chat_ref: chat, object_id: objectId }, open) {
    if (id ?? chat) return id === open || chat === `chat:${open}`;
    return this.open.panels.objects.knows(objectId);
  }

  /** Reload the session list, one load at a time; events during a load cause one more. */
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
    const [, page, id, tab, ...rest] = addressed();
    if (page !== "s" || !id) {
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

function sessionRow(session) {
  return [
    h("span", { class: "name", title: session.session_id }, session.session_id),
    h("span", { class: `state ${session.state}` }, session.state === "active" ? "" : session.state),
    h("span", { class: "faint" }, `${turnCount(session.turns)}, ${time(session.last_activity)}`),
  ];
}

function showLive(live) {
  const mark = byId("live");
  mark.textContent = live ? "●" : "○";
  mark.className = live ? "live" : "";
  mark.setAttribute("aria-label", live ? "live" : "not connected");
  mark.title = live ? "live: changes appear automatically" : "not connected; reconnecting";
}

let asking = null;

/** Ask once, however many requests are waiting for a token. */
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
