// A list of any length that draws only the visible rows. All rows have the same height.

import { h } from "./dom.js";

const ROWS_AROUND = 8;

let lists = 0;

export class VirtualList {
  /**
   * @param rowHeight in pixels; must match the style sheet
   * @param draw creates a row's children from an item
   * @param onChoose called with the item selected by a click or a key
   * @param onPaint called with the items in sight, if they are not those of the last call
   */
  constructor({ rowHeight, draw, onChoose, onPaint = null, label }) {
    this.rowHeight = rowHeight;
    this.draw = draw;
    this.onChoose = onChoose;
    this.onPaint = onPaint;
    this.items = [];
    this.chosen = -1;
    this.id = `list-${(lists += 1)}`;
    this.space = h("div", { class: "rows", role: "presentation" });
    this.element = h(
      "div",
      { class: "virtual-list", tabindex: "0", role: "listbox", "aria-label": label, onkeydown: (event) => this.#key(event) },
      this.space,
    );
    this.element.addEventListener("scroll", () => this.#paintSoon(), { passive: true });
    new ResizeObserver(() => this.#paintSoon()).observe(this.element);
  }

  /** Replace the items; the selected one is found again by its key. */
  show(items, { key = null } = {}) {
    const before = key && this.items[this.chosen] ? key(this.items[this.chosen]) : null;
    this.items = items;
    this.chosen = before === null ? -1 : items.findIndex((item) => key(item) === before);
    this.space.style.height = `${items.length * this.rowHeight}px`;
    this.#paint();
  }

  /** Select a row and scroll it into view, without calling onChoose. */
  mark(index) {
    this.chosen = index;
    this.element.setAttribute("aria-activedescendant", index >= 0 ? `${this.id}-${index}` : "");
    if (index >= 0) this.#intoSight(index);
    this.#paint();
  }

  /** Select the row the given number of steps away. */
  step(by) {
    if (!this.items.length) return;
    const next = Math.max(0, Math.min(this.items.length - 1, this.chosen + by));
    this.mark(next);
    this.onChoose(this.items[next], next);
  }

  /** Draw the visible rows again: what they show has changed. */
  refresh() {
    this.#paintSoon();
  }

  get item() {
    return this.items[this.chosen] ?? null;
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.items.length, End: this.items.length };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.step(steps[event.key]);
  }

  #intoSight(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) {
      this.element.scrollTop = top + this.rowHeight - clientHeight;
    }
  }

  #paintSoon() {
    if (this.soon) return;
    this.soon = requestAnimationFrame(() => {
      this.soon = 0;
      this.#paint();
    });
  }

  #paint() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - ROWS_AROUND);
    const end = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + ROWS_AROUND);
    const rows = [];
    for (let at = first; at < end; at += 1) rows.push(this.#row(at));
    this.space.replaceChildren(...rows);
    if (this.onPaint && this.painted !== `${first} ${end}`) this.onPaint(this.items.slice(first, end));
    this.painted = `${first} ${end}`;
  }

  #row(at) {
    const item = this.items[at];
    const row = h(
      "div",
      {
        id: `${this.id}-${at}`,
        class: at === this.chosen ? "row chosen" : "row",
        role: "option",
        "aria-selected": at === this.chosen ? "true" : "false",
        "aria-posinset": at + 1,
        "aria-setsize": this.items.length,
        onclick: () => {
          this.mark(at);
          this.onChoose(item, at);
        },
      },
      this.draw(item, at),
    );
    row.style.transform = `translateY(${at * this.rowHeight}px)`;
    return row;
  }
}
