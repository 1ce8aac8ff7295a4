// Search in a text on the page: highlights every match, and steps from one to the next.

import { number } from "../data/words.js";
import { h } from "./dom.js";

const MATCHES_MAX = 5_000;
const SETTLE_MS = 120;

export class TextSearch {
  constructor(root, { label }) {
    this.root = root;
    this.matches = [];
    this.at = -1;
    this.input = h("input", { type: "search", placeholder: label, "aria-label": label, oninput: () => this.#soon(), onkeydown: (event) => this.#key(event) });
    this.state = h("output", { class: "faint" });
    this.element = h("span", { class: "text-search" }, this.input, this.state);
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Search again: the text has changed. */
  refresh() {
    if (this.input.value) this.#find();
    else this.#show([]);
  }

  #soon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.refresh(), SETTLE_MS);
  }

  #key(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(this.soon);
    if (!this.matches.length) this.refresh();
    else this.#step(event.shiftKey ? -1 : 1);
  }

  #find() {
    const wanted = this.input.value.toLowerCase();
    const found = [];
    const walker = document.createTreeWalker(this.root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && found.length < MATCHES_MAX; node = walker.nextNode()) {
      if (node.parentElement.closest(".piece-head, button")) continue;
      const text = node.data.toLowerCase();
      for (let at = text.indexOf(wanted); at >= 0 && found.length < MATCHES_MAX; at = text.indexOf(wanted, at + wanted.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        found.push(range);
      }
    }
    this.#show(found);
    if (found.length) this.#step(1);
  }

  #show(matches) {
    this.matches = matches;
    this.at = -1;
    if (globalThis.Highlight) CSS.highlights.set("found", new Highlight(...matches));
    this.#say();
    if (globalThis.Highlight && !matches.length) CSS.highlights.delete("found-here");
  }

  #step(by) {
    this.at = (this.at + by + this.matches.length) % this.matches.length;
    const range = this.matches[this.at];
    if (globalThis.Highlight) CSS.highlights.set("found-here", new Highlight(range));
    range.startContainer.parentElement.scrollIntoView({ block: "nearest" });
    const box = range.getBoundingClientRect();
    const view = this.root.getBoundingClientRect();
    if (box.top < view.top || box.bottom > view.bottom) this.root.scrollTop += box.top - view.top - view.height / 3;
    this.#say();
  }

  #say() {
    const { length } = this.matches;
    const more = length === MATCHES_MAX ? "+" : "";
    this.state.textContent = !this.input.value ? "" : length ? `${number(this.at + 1)} of ${number(length)}${more}` : "no matches";
  }
}
