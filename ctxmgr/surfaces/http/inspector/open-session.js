// One session on the page: heading, timeline, panels and keyboard shortcuts.

import { go } from "./address.js";
import { h, number, time, turnCount } from "./dom.js";
import { fault } from "./notices.js";
import { ObjectsPanel } from "./objects-panel.js";
import { Session } from "./session.js";
import { TimePanel } from "./time-panel.js";
import { Timeline } from "./timeline.js";
import { TurnPanel } from "./turn-panel.js";

const TABS = [["turn", "Prompt"], ["objects", "Objects"], ["time", "As of"]];

export class OpenSession {
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
      fault(error);
      if (!this.session.entries.length) {
        this.element.append(h("p", { class: "hint bad" }, error.message, " ", error.next ?? ""));
        this.content.remove();
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
    [...this.tabs.children].forEach((button) => button.setAttribute("aria-selected", button.dataset.tab === this.tab ? "true" : "false"));
    const panel = this.panels[this.tab].element;
    if (this.content.firstChild !== panel) this.content.replaceChildren(panel); // inserting it again would lose focus and scroll position
    if (this.tab !== "objects") this.panels.objects.hide();
    this.#showPanel();
  }

  /** Handle a key; return whether it is a shortcut. */
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
    else if (name === "/") (this.#panelFilter() ?? document.getElementById("session-filter")).focus();
    else if (name === "a" && this.tab === "objects") this.panels.objects.toggleActive();
    else if (name === "p" && this.tab === "objects") this.panels.objects.togglePinned();
    else return false;
    return true;
  }

  /** The turn shown: the selected one, or the last. */
  get chosen() {
    return this.turn ?? this.session.last;
  }

  #showPanel() {
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
      `${number(overview.active)} active`,
      `${number(overview.metadata)} metadata`,
      `${number(overview.indexed)} indexed`,
      `${number(overview.pinned)} pinned`,
      `${time(overview.started)} – ${time(overview.last_activity)}`,
    ];
    this.head.replaceChildren(
      h("h1", {}, overview.session_id),
      h("div", { class: "facts" }, ...facts.filter(Boolean).map((fact) => h("span", {}, fact))),
    );
    if (this.tab === "time") this.panels.time.show(this.chosen);
  }
}
