// A page of tabs, each a panel with an address of its own: #/ROOT/PANEL/REST.
//
// A panel has an element and show(rest), and may have a filter field. What the server refuses is shown
// in its place.

import { address } from "../data/address.js";
import { h, skeleton } from "./dom.js";

export class TabbedPage {
  /** @param panels rows of name, label and make(), the first of which is shown by default */
  constructor(root, title, panels) {
    Object.assign(this, { root, panels, made: {} });
    this.tabs = h("nav", { class: "tabs", role: "tablist", "aria-label": title }, ...panels.map(({ name, label }) => h("button", { type: "button", role: "tab", "data-tab": name, onclick: () => (location.hash = address(root, name)) }, label)));
    this.place = h("div", { class: "layer-body" }, skeleton(6));
    this.element = h("div", { class: "layer page" }, h("header", { class: "session-head" }, h("h1", {}, title)), this.tabs, this.place);
  }

  async load() {}

  async show([name, ...rest]) {
    const wanted = this.panels.find((panel) => panel.name === name) ?? this.panels[0];
    const turn = (this.turn = {});
    [...this.tabs.children].forEach((button) => button.setAttribute("aria-selected", String(button.dataset.tab === wanted.name)));
    try {
      this.made[wanted.name] ??= new (await wanted.make())();
      if (turn !== this.turn) return;
      this.panel = this.made[wanted.name];
      if (this.place.firstChild !== this.panel.element) this.place.replaceChildren(this.panel.element);
      await this.panel.show(rest);
    } catch (error) {
      if (turn !== this.turn) return;
      delete this.made[wanted.name]; // another visit asks again
      this.place.replaceChildren(refused(error));
    }
  }

  close() {
    this.turn = null;
  }

  key(name) {
    if (name !== "/" || !this.panel?.filter) return false;
    this.panel.filter.focus();
    return true;
  }
}

/** What the server said instead of an answer. */
export function refused(error) {
  return h("div", { class: "hint", role: "alert" }, h("p", {}, h("b", {}, error.message)), error.next ? h("p", { class: "faint" }, error.next) : null);
}
