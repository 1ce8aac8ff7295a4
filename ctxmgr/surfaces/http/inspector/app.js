// The inspector: routes addresses to pages, passes on the server's events, and handles keys.
//
// A page is one row of PAGES. It has an element, load(), show(parts) for a change of its address,
// key(name) and close(); it may have notify(event), reconnected() and redraw().

import { addressed } from "./data/address.js";
import { adoptToken, onTokenNeeded, subscribe } from "./data/api.js";
import { HomePage } from "./pages/home.js";
import { missing } from "./pages/missing.js";
import { SessionPage } from "./pages/session.js";
import { fault } from "./widgets/notices.js";

const THEME = "ctxmgr-theme";

/** First part of the address → its page, and how many parts tell one page from another. */
const PAGES = {
  "": { make: async () => HomePage, parts: 0 },
  s: { make: async () => SessionPage, parts: 1 },
  experience: { make: async () => (await import("./pages/experience.js")).ExperiencePage, parts: 1 },
  knowledge: { make: async () => (await import("./pages/knowledge.js")).KnowledgePage, parts: 0 },
  memory: { make: async () => (await import("./pages/memory.js")).MemoryPage, parts: 0 },
  proxy: { make: async () => (await import("./pages/proxy.js")).ProxyPage, parts: 1 },
  audit: { make: async () => (await import("./pages/audit.js")).AuditPage, parts: 0 },
  compare: { make: async () => (await import("./pages/compare.js")).ComparePage, parts: 2 },
};

const byId = (id) => document.getElementById(id);

class App {
  async start() {
    onTokenNeeded(askForToken);
    addEventListener("hashchange", () => this.#route().catch(fault));
    await this.#route();
    await this.page?.session?.newest; // the requested session loads before anything else
    subscribe({
      onEvent: (event) => event.id !== null && this.page?.notify?.(event), // the end of the stream is not a store event
      onState: (live) => this.#connected(live),
      signal: new AbortController().signal,
    }).catch(fault);
  }

  /** Reload after reconnecting: events may have been missed. */
  #connected(live) {
    showLive(live);
    if (live) this.page?.reconnected?.();
  }

  async #route() {
    adoptToken();
    const [name = "", ...parts] = addressed();
    const row = PAGES[name] ?? PAGES[""];
    const wanted = parts.filter(Boolean).length >= row.parts ? row : PAGES[""];
    const key = [wanted === row ? name : "", ...parts.slice(0, wanted.parts)].join("/");
    if (key !== this.key) {
      this.key = key;
      this.page?.close();
      this.page = null;
      const Page = await wanted.make();
      if (key !== this.key) return;
      this.page = new Page(parts);
      byId("main").replaceChildren(this.page.element);
      document.body.dataset.page = wanted === PAGES[""] ? "home" : name;
      this.page.load().catch(fault);
    }
    await this.page?.show(parts);
  }
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
  app.page?.redraw?.();
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) return typing.blur();
  if (typing?.type === "range" && !"123456c?t".includes(event.key)) return null;
  const busy = typing && typing.type !== "range" && typing.type !== "checkbox";
  if (busy || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return null;
  if (event.key === "?") byId("keys").showModal();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "h") location.hash = "#/";
  else if (!app.page?.key(event.key)) return null;
  return event.preventDefault();
}

const app = new App();
const kept = localStorage.getItem(THEME);
if (kept) setTheme(kept);
byId("theme").addEventListener("click", toggleTheme);
byId("help").addEventListener("click", () => byId("keys").showModal());
addEventListener("keydown", onKey);
app.start().catch((error) => {
  byId("main").replaceChildren(missing("The inspector could not start."));
  fault(error);
});
