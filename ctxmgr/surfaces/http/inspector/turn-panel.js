// One prompt in detail: its sections, its blocks with their token counts, its text, and what changed.

import { get } from "./api.js";
import { diffView } from "./diff-view.js";
import { h, number, percent, sectionName, swatch, time } from "./dom.js";
import { cacheOutcome, isBreak } from "./session.js";
import { VirtualList } from "./virtual-list.js";

const ROW_HEIGHT = 26;
const SETTLE_MS = 90;
const BEGINNING = 120;
const MARKS = { new: "new", changed: "changed", moved: "moved", gone: "removed" };

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
      label: "Prompt blocks",
    });
    this.filter = h("input", { type: "search", placeholder: "Filter blocks", "aria-label": "Filter blocks", oninput: () => this.#listed() });
    this.onlyNew = h("input", { type: "checkbox", onchange: () => this.#listed() });
    this.head = h("div", { class: "turn-head" });
    this.sizes = h("div", { class: "sizes" });
    this.text = h("div", { class: "prompt", tabindex: "0", "aria-label": "Prompt text" });
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
        h("div", { class: "pieces" }, this.sizes, h("div", { class: "filter" }, this.filter, h("label", {}, this.onlyNew, "changed only")), this.list.element),
        h("div", { class: "reading" }, this.tabs, this.text),
      ),
    );
  }

  /** Show a turn, unless another is requested within a moment. */
  show(turn) {
    if (turn === this.turn) return this.#heading(); // its timeline entry may have been loaded since
    this.turn = turn;
    this.view = null;
    this.element.classList.add("is-loading"); // the content still belongs to another turn
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

  /** Show the error instead of another turn's content; the next call of show() loads again. */
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
      entry && h("span", {}, `${percent(entry.prompt_tokens ? entry.cached_tokens / entry.prompt_tokens : 0)} from cache`),
      entry && h("span", { class: isBreak(entry) ? "bad" : "good" }, cacheOutcome(entry)),
      entry?.rewritten_tokens ? h("span", { class: "bad" }, `${number(entry.rewritten_tokens)} rewritten`) : null,
      entry?.reported ? h("span", {}, reported(entry.reported)) : null,
      (view?.model ?? entry?.model) ? h("span", {}, view?.model ?? entry.model) : null,
      h("span", {}, (view ?? entry)?.policy ?? "plain"),
      view && h("span", { class: "good", title: view.prompt_hash }, view.proven ? `✓ verified ${view.prompt_hash.slice(0, 12)}…` : ""),
    ];
    const quoted = (who, text) => (text ? h("p", { class: "said" }, h("b", {}, who), " ", text) : null);
    this.head.replaceChildren(
      h("h2", {}, this.turn ? `Turn ${this.turn}` : "No turn yet"),
      h("div", { class: "facts" }, ...facts.filter(Boolean)),
      ...[quoted("user", entry?.user), quoted("assistant", entry?.answer)].filter(Boolean),
    );
  }

  #sizes() {
    const all = this.view.sections.reduce((sum, section) => sum + (section.tokens ?? 0), 0) || 1;
    this.sizes.replaceChildren(
      ...this.view.sections.map((section) => {
        const bar = h("i", { class: `bar ${section.section}` });
        bar.style.width = `${(100 * section.tokens) / all}%`;
        return h(
          "div",
          { class: "size" },
          h("span", {}, swatch(section.section), sectionName(section.section)),
          h("span", { class: "gauge" }, bar),
          h("span", { class: "figure" }, number(section.tokens ?? 0)),
        );
      }),
    );
  }

  #listed() {
    if (!this.view) return;
    const wanted = this.filter.value.toLowerCase();
    const all = [...this.view.blocks.map((block, at) => ({ ...block, at })), ...this.view.gone];
    const matching = all.filter(
      (block) =>
        (!this.onlyNew.checked || block.change !== "same") &&
        (!wanted || `${block.name} ${block.object_id ?? ""} ${block.section}`.toLowerCase().includes(wanted)),
    );
    this.list.show(matching);
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
    const difference = await get("/diff", { name: this.session.ref, from_turn: turn - 1, to_turn: turn }, this.asking);
    if (turn !== this.turn || !this.changes) return null;
    const alike = `The first ${number(difference.common_chars)} characters are the same.`;
    return this.text.replaceChildren(h("p", { class: "faint" }, alike), diffView(difference.diff));
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

/** A path or a tool name; without either, the beginning of the text. */
function nameOf(block) {
  return block.name || block.text.slice(0, BEGINNING).split("\n", 1)[0];
}

function reported({ input, cached, written, output }) {
  const parts = [["input", input], ["cached", cached], ["written", written], ["output", output]];
  return `reported: ${parts.filter(([, tokens]) => tokens).map(([name, tokens]) => `${name} ${number(tokens)}`).join(", ")}`;
}
