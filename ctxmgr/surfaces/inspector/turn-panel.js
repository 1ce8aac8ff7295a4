// One prompt taken apart: its sections, its pieces with what each costs, its text, and what changed.

import { get } from "./api.js";
import { diffView } from "./diff-view.js";
import { h, number, percent, sectionName, swatch, time } from "./dom.js";
import { fate, isBreak } from "./session.js";
import { VirtualList } from "./virtual-list.js";

const ROW_HEIGHT = 26;
const SETTLE_MS = 90;
const BEGINNING = 120;
const MARKS = { new: "new", changed: "changed", moved: "moved", gone: "gone" };

export class TurnPanel {
  constructor(session, { onObject, onFault }) {
    this.session = session;
    this.onObject = onObject;
    this.onFault = onFault;
    this.changes = false;
    this.list = new VirtualList({
      rowHeight: ROW_HEIGHT,
      draw: (block) => this.#row(block),
      onChoose: (block) => this.#reveal(block),
      label: "Pieces of the prompt",
    });
    this.filter = h("input", { type: "search", placeholder: "Filter pieces", "aria-label": "Filter pieces", oninput: () => this.#listed() });
    this.onlyNew = h("input", { type: "checkbox", onchange: () => this.#listed() });
    this.head = h("div", { class: "turn-head" });
    this.sizes = h("div", { class: "sizes" });
    this.text = h("div", { class: "prompt", tabindex: "0", "aria-label": "The prompt" });
    this.tabs = h(
      "div",
      { class: "tabs small", role: "tablist" },
      this.#tab("Prompt", false),
      this.#tab("Changes", true),
    );
    this.element = h(
      "section",
      { class: "panel turn", "aria-label": "Turn" },
      this.head,
      h(
        "div",
        { class: "columns" },
        h("div", { class: "pieces" }, this.sizes, h("div", { class: "filter" }, this.filter, h("label", {}, this.onlyNew, "not as before")), this.list.element),
        h("div", { class: "reading" }, this.tabs, this.text),
      ),
    );
  }

  /** Show a turn, once no other is asked for. */
  show(turn) {
    if (turn === this.turn) return this.#heading(); // its entry may have come since
    this.turn = turn;
    this.view = null;
    this.element.classList.add("is-loading"); // what is still there is of another turn
    this.#heading();
    clearTimeout(this.soon);
    this.asking?.abort();
    if (turn) this.soon = setTimeout(() => this.#load(turn), SETTLE_MS);
  }

  toggleChanges() {
    this.#choose(!this.changes);
  }

  async #load(turn) {
    this.asking = new AbortController();
    try {
      const view = await get("/turn", { session: this.session.ref, turn }, this.asking);
      if (turn !== this.turn) return;
      this.view = view;
      this.element.classList.remove("is-loading");
      this.#heading();
      this.#sizes();
      this.#listed();
      await this.#read();
    } catch (error) {
      if (turn === this.turn) this.#unknown(error);
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  /** Show nothing rather than another turn's; the next to show this one asks again. */
  #unknown(error) {
    this.turn = null;
    this.element.classList.remove("is-loading");
    this.sizes.replaceChildren();
    this.list.show([]);
    this.text.replaceChildren(h("p", { class: "bad" }, error.message));
  }

  #heading() {
    const entry = this.session.entry(this.turn);
    const { view } = this;
    const facts = [
      entry && h("span", { title: time(entry.valid_time, { exact: true }) }, time(entry.valid_time)),
      entry && h("span", {}, `${number(entry.prompt_tokens)} tokens`),
      entry && h("span", {}, `${percent(entry.prompt_tokens ? entry.cached_tokens / entry.prompt_tokens : 0)} from the cache`),
      entry && h("span", { class: isBreak(entry) ? "bad" : "good" }, fate(entry)),
      entry?.rewritten_tokens ? h("span", { class: "bad" }, `${number(entry.rewritten_tokens)} written again`) : null,
      entry?.reported ? h("span", {}, reported(entry.reported)) : null,
      (view?.model ?? entry?.model) ? h("span", {}, view?.model ?? entry.model) : null,
      h("span", {}, (view ?? entry)?.policy ?? "plain"),
      view && h("span", { class: "good", title: view.prompt_hash }, view.proven ? `✓ proven ${view.prompt_hash.slice(0, 12)}…` : ""),
    ];
    const said = (who, text) => (text ? h("p", { class: "said" }, h("b", {}, who), " ", text) : null);
    this.head.replaceChildren(
      h("h2", {}, this.turn ? `Turn ${this.turn}` : "No turn yet"),
      h("div", { class: "facts" }, ...facts.filter(Boolean)),
      ...[said("user", entry?.user), said("assistant", entry?.answer)].filter(Boolean),
    );
  }

  #sizes() {
    const all = this.view.sections.reduce((sum, each) => sum + (each.tokens ?? 0), 0) || 1;
    this.sizes.replaceChildren(
      ...this.view.sections.map((each) => {
        const bar = h("i", { class: `bar ${each.section}` });
        bar.style.width = `${(100 * each.tokens) / all}%`;
        return h(
          "div",
          { class: "size" },
          h("span", {}, swatch(each.section), sectionName(each.section)),
          h("span", { class: "gauge" }, bar),
          h("span", { class: "figure" }, number(each.tokens ?? 0)),
        );
      }),
    );
  }

  #listed() {
    if (!this.view) return;
    const wanted = this.filter.value.toLowerCase();
    const all = [...this.view.blocks.map((each, at) => ({ ...each, at })), ...this.view.gone];
    const shown = all.filter(
      (each) =>
        (!this.onlyNew.checked || each.change !== "same") &&
        (!wanted || `${each.name} ${each.object_id ?? ""} ${each.section}`.toLowerCase().includes(wanted)),
    );
    this.list.show(shown);
  }

  #row(block) {
    return [
      swatch(block.section),
      h("span", { class: "name" }, nameOf(block)),
      block.change === "same" ? null : h("span", { class: `mark ${block.change}` }, MARKS[block.change]),
      h("span", { class: "figure", title: `${number(block.chars)} characters` }, number(block.tokens)),
    ];
  }

  async #read() {
    if (!this.view) return;
    const { turn } = this;
    if (!this.changes) return this.#prompt();
    if (turn < 2) return this.text.replaceChildren(h("p", { class: "faint" }, "This is the first prompt."));
    const found = await get("/diff", { name: this.session.ref, from_turn: turn - 1, to_turn: turn }, this.asking);
    if (turn !== this.turn || !this.changes) return null;
    const alike = `The first ${number(found.common_chars)} characters are the same.`;
    return this.text.replaceChildren(h("p", { class: "faint" }, alike), diffView(found.diff));
  }

  #prompt() {
    let section = null;
    const pieces = [];
    this.view.blocks.forEach((block, at) => {
      if (block.section !== section) pieces.push(h("h3", { class: block.section }, swatch(block.section), sectionName(block.section)));
      section = block.section;
      pieces.push(
        h(
          "pre",
          { class: `piece ${block.section} is-${block.change}`, "data-at": at, title: `${nameOf(block)}: ${number(block.tokens)} tokens` },
          block.text,
        ),
      );
    });
    this.text.replaceChildren(...pieces);
    this.text.scrollTop = 0;
  }

  #reveal(block) {
    if (this.changes) this.#choose(false);
    const piece = this.text.querySelector(`[data-at="${block.at}"]`);
    this.text.querySelector(".is-chosen")?.classList.remove("is-chosen");
    piece?.classList.add("is-chosen");
    piece?.scrollIntoView({ block: "center" });
    if (block.object_id && block.kind) this.onObject(block.object_id, { stay: true });
  }

  #tab(label, changes) {
    return h("button", { type: "button", role: "tab", "aria-selected": changes === this.changes ? "true" : "false", onclick: () => this.#choose(changes) }, label);
  }

  #choose(changes) {
    this.changes = changes;
    [...this.tabs.children].forEach((tab, at) => tab.setAttribute("aria-selected", Boolean(at) === changes ? "true" : "false"));
    this.#read().catch((error) => error.name !== "AbortError" && this.onFault(error));
  }
}

/** A path or a tool; what has neither is known by how it begins. */
function nameOf(block) {
  return block.name || block.text.slice(0, BEGINNING).split("\n", 1)[0];
}

function reported({ input, cached, written, output }) {
  const parts = [["input", input], ["cached", cached], ["written", written], ["output", output]];
  return `reported: ${parts.filter(([, each]) => each).map(([name, each]) => `${name} ${number(each)}`).join(", ")}`;
}
