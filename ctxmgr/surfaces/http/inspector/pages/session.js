// One session on the page: heading, timeline, panels and keyboard shortcuts.
//
// A panel is one row of PANELS. It has an element and show(rest); it may have hide(), key(name),
// a list to step through and a filter to focus.

import { address, go, toExperience, toProxy } from "../data/address.js";
import { Session } from "../data/session.js";
import { count, number, when } from "../data/words.js";
import { PromptPanel } from "../panels/prompt.js";
import { h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { Timeline } from "../widgets/timeline.js";
import { missing } from "./missing.js";

const PANELS = [
  { name: "turn", label: "Prompt", make: async () => PromptPanel },
  { name: "calls", label: "Tool calls", make: async () => (await import("../panels/calls.js")).CallsPanel },
  { name: "objects", label: "Objects", make: async () => (await import("../panels/objects.js")).ObjectsPanel },
  { name: "find", label: "Search", make: async () => (await import("../panels/find.js")).FindPanel },
  { name: "time", label: "As of", make: async () => (await import("../panels/as-of.js")).AsOfPanel },
  { name: "forks", label: "Forks", make: async () => (await import("../panels/forks.js")).ForksPanel },
];

export class SessionPage {
  constructor([id]) {
    this.session = new Session(id);
    this.timeline = new Timeline(this.session, { onTurn: (turn) => turn && this.#toTurn(turn) });
    this.panels = { turn: new PromptPanel(this.session, this.#options()) };
    this.places = {}; // what each panel showed last
    this.head = h("header", { class: "session-head" }, h("h1", {}, id), this.#experience(), this.#proxy(), skeleton(1));
    this.tabs = h("div", { class: "tabs", role: "tablist" }, ...PANELS.map(({ name, label }, at) => this.#tab(name, label, at)));
    this.content = h("div", { class: "place" });
    this.element = h("div", { class: "session" }, this.head, this.timeline.element, this.tabs, this.content);
    this.session.addEventListener("overview", () => this.#overview());
    this.session.addEventListener("timeline", () => this.#showPanel());
    this.session.addEventListener("fault", ({ detail }) => fault(detail));
    this.turn = null;
  }

  async load() {
    try {
      await this.session.load();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code === "not_found") return this.element.replaceChildren(missing(`No session “${this.session.id}”.`));
      fault(error);
      if (!this.session.entries.length) this.content.replaceChildren(h("p", { class: "hint bad" }, error.message, " ", error.next ?? ""));
    }
  }

  close() {
    this.session.close();
  }

  /** Whether an event is about this session, and what to do then. */
  notify(event) {
    const { session_id: id, chat_ref: chat, object_id: objectId } = event.data;
    const mine = id ?? chat ? id === this.session.id || chat === `chat:${this.session.id}` : (this.panels.objects?.knows(objectId) ?? true);
    if (mine) this.session.notify(event);
  }

  /** Read what was missed: the connection was lost. */
  reconnected() {
    this.session.notify({ name: "turn_finished", data: { session_id: this.session.id } });
  }

  redraw() {
    this.timeline.draw();
  }

  async show([, tab = "turn", ...rest]) {
    this.tab = PANELS.some(({ name }) => name === tab) ? tab : "turn";
    this.places[this.tab] = rest.join("/");
    if (this.tab === "turn") this.turn = Number(rest[0]) || null;
    [...this.tabs.children].forEach((button) => button.setAttribute("aria-selected", String(button.dataset.tab === this.tab)));
    Object.entries(this.panels).forEach(([name, panel]) => name !== this.tab && panel.hide?.());
    await this.#make(this.tab);
    const panel = this.panels[this.tab].element;
    if (this.content.firstChild !== panel) this.content.replaceChildren(panel); // inserting it again would lose focus and scroll position
    this.#showPanel();
  }

  /** Handle a key; return whether it is a shortcut. */
  key(name) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    const panel = this.panels[this.tab];
    if (name in steps) this.#toTurn(this.chosen + steps[name]);
    else if (name === "Home") this.#toTurn(1);
    else if (name === "End") this.#toTurn(this.session.last);
    else if (name === "b" || name === "B") this.#toTurn(this.timeline.nextBreak(name === "b" ? 1 : -1));
    else if (name === "f" || name === "F") this.#toTurn(this.timeline.nextFailed(name === "f" ? 1 : -1));
    else if (name === "+" || name === "=") this.timeline.zoom(1.6);
    else if (name === "-") this.timeline.zoom(1 / 1.6);
    else if (name === "0") this.timeline.zoom(0);
    else if (PANELS[Number(name) - 1]) this.#go(PANELS[Number(name) - 1].name);
    else if (name === "j" || name === "k") panel?.list?.step(name === "j" ? 1 : -1);
    else if (name === "/") panel?.filter?.focus();
    else return panel?.key?.(name) ?? false;
    return true;
  }

  /** The turn shown: the selected one, or the last. */
  get chosen() {
    return this.turn ?? this.session.last;
  }

  async #make(name) {
    if (this.panels[name]) return;
    const Panel = await PANELS.find((panel) => panel.name === name).make();
    this.panels[name] ??= new Panel(this.session, this.#options());
  }

  #options() {
    return {
      onFault: fault,
      onObject: (objectId, { open = false } = {}) => {
        this.places.objects = objectId;
        if (open) this.#go("objects");
      },
      onFind: (query) => go("s", this.session.id, "find", query),
    };
  }

  #showPanel() {
    const turn = Math.min(this.chosen, this.session.last || this.chosen);
    this.timeline.choose(turn);
    const panel = this.panels[this.tab];
    if (this.tab === "turn") panel.show(this.session.known ? turn : this.turn);
    else if (this.tab === "time") panel?.show(turn);
    else if (this.shown !== `${this.tab} ${this.places[this.tab]}`) panel?.show(this.places[this.tab] ?? "");
    this.shown = panel ? `${this.tab} ${this.places[this.tab]}` : null;
  }

  #toTurn(turn) {
    if (!turn || turn < 1 || turn > this.session.last) return;
    if (this.tab === "turn") return go("s", this.session.id, "turn", turn);
    this.turn = turn;
    this.timeline.choose(turn);
    if (this.tab === "time") this.panels.time.goTo(turn);
  }

  #go(tab) {
    go("s", this.session.id, tab, tab === "turn" ? (this.turn ?? "") : (this.places[tab] ?? ""));
  }

  #tab(name, label, at) {
    return h("button", { type: "button", role: "tab", "data-tab": name, title: `${label} (${at + 1})`, onclick: () => this.#go(name) }, label);
  }

  #experience() {
    return h("a", { class: "button", href: toExperience(this.session.id), title: "What was recorded, token by token" }, "Experience");
  }

  /** Sessions that the proxy recorded have a page with their requests. */
  #proxy() {
    if (!this.session.id.startsWith("proxy-")) return null;
    return h("a", { class: "button", href: toProxy(this.session.id), title: "Requests as they came and as they went out" }, "Proxy");
  }

  #overview() {
    const { overview } = this.session;
    const economy = this.session.entries.at(-1)?.policy;
    const levels = [
      economy ? null : `${number(overview.active)} in full`,
      economy ? null : `${number(overview.metadata)} metadata`,
      economy ? null : `${number(overview.indexed)} indexed`,
      overview.pinned ? `${number(overview.pinned)} pinned` : null,
    ];
    const parent = /^(.*) at turn (\d+)$/.exec(overview.forked_from ?? "");
    const facts = [
      overview.state,
      parent ? h("span", {}, "fork of ", h("a", { href: address("compare", parent[1], overview.session_id) }, parent[1]), ` at turn ${parent[2]}`) : null,
      count(overview.turns, "turn"),
      ...levels,
      h("span", {}, when(overview.started), " – ", when(overview.last_activity)),
    ];
    this.head.replaceChildren(h("h1", {}, overview.session_id), this.#experience(), ...[this.#proxy()].filter(Boolean), h("div", { class: "facts" }, ...facts.filter(Boolean).map((fact) => (typeof fact === "string" ? h("span", {}, fact) : fact))));
    if (this.tab === "time") this.panels.time?.show(this.chosen);
  }
}
