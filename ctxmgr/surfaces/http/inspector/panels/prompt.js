// One prompt in detail: what it consists of, its pieces, its text, what changed, and the answer.

import { get } from "../data/api.js";
import { breakTone, cacheOutcome, costOf, timesOf } from "../data/session.js";
import { KINDS, count, duration, isShortened, kindName, money, number, percent, pieceName, shortId, when } from "../data/words.js";
import { callCard } from "../widgets/call-card.js";
import { languageOf, lineClass } from "../widgets/code-view.js";
import { diffView } from "../widgets/diff-view.js";
import { choice, copyButton, h, skeleton, swatch } from "../widgets/dom.js";
import { exportDialog } from "../widgets/export-dialog.js";
import { foldView } from "../widgets/fold-view.js";
import { markdown } from "../widgets/markdown.js";
import { TextSearch } from "../widgets/text-search.js";
import { TurnComment } from "../widgets/turn-comment.js";
import { VirtualList } from "../widgets/virtual-list.js";
import { waterfall } from "../widgets/waterfall.js";

const ROW_HEIGHT = 26;
const SETTLE_MS = 90;
const MARKS = { new: "new", changed: "changed", moved: "moved", gone: "removed" };
const VIEWS = [["prompt", "Prompt"], ["changes", "Changes"], ["answer", "Answer"]];
const FILTERS = {
  all: ["all pieces", () => true],
  changed: ["changed only", (block) => block.change !== "same"],
  folded: ["folded only", isShortened],
  failed: ["failed tools only", (block) => block.status === "fail"],
};

export class PromptPanel {
  constructor(session, { onObject, onFault }) {
    this.session = session;
    this.onObject = onObject;
    this.onFault = onFault;
    this.showing = "prompt";
    this.list = new VirtualList({ rowHeight: ROW_HEIGHT, draw: (block) => row(block), onChoose: (block) => this.#reveal(block), label: "Pieces of the prompt" });
    this.filter = h("input", { type: "search", placeholder: "Filter pieces", "aria-label": "Filter pieces", oninput: () => this.#listed() });
    this.only = h("select", { "aria-label": "Which pieces", onchange: () => this.#listed() }, ...Object.entries(FILTERS).map(([name, [label]]) => h("option", { value: name }, label)));
    this.head = h("div", { class: "turn-head" });
    this.comment = new TurnComment(session, { onFault });
    this.sizes = h("div", { class: "sizes" });
    this.text = h("div", { class: "prompt", tabindex: "0", "aria-label": "Prompt text" });
    this.search = new TextSearch(this.text, { label: "Find in this prompt" });
    this.views = h("div", { class: "tabs small", role: "tablist" }, ...VIEWS.map(([name, label]) => this.#tab(name, label)));
    this.element = h(
      "section",
      { class: "panel turn is-loading", "aria-label": "Turn" },
      this.head,
      this.comment.element,
      h(
        "div",
        { class: "columns" },
        h("div", { class: "pieces" }, this.sizes, h("div", { class: "filter" }, this.filter, this.only), this.list.element),
        h("div", { class: "reading" }, h("div", { class: "toolbar" }, this.views, this.search.element, h("button", { type: "button", class: "quiet", onclick: () => this.comment.write() }, "Comment…"), h("button", { type: "button", class: "quiet", onclick: () => this.#export() }, "Export…")), this.text),
      ),
    );
    this.#wait();
  }

  /** Show a turn, unless another is requested within a moment. */
  show(turn) {
    if (turn === this.turn) return this.#heading(); // its timeline entry may have been loaded since
    this.turn = turn;
    this.view = null;
    this.#heading();
    clearTimeout(this.soon);
    this.asking?.abort();
    if (turn) {
      this.#wait(); // the content still belongs to another turn
      this.soon = setTimeout(() => this.#load(turn), SETTLE_MS);
    } else this.#nothing();
  }

  key(name) {
    if (name === "c") this.#choose(this.showing === "changes" ? "prompt" : "changes");
    else if (name === "e") this.#export();
    else if (name === "n") this.comment.write();
    else if (name === "s") this.search.focus();
    else return false;
    return true;
  }

  #wait() {
    this.element.classList.add("is-loading");
    if (!this.sizes.firstChild) this.sizes.replaceChildren(skeleton(4));
    if (!this.text.firstChild) this.text.replaceChildren(skeleton(12));
  }

  /** A session without turns, once that is known; until then this is loading. */
  #nothing() {
    if (!this.session.known) return;
    this.element.classList.remove("is-loading");
    this.sizes.replaceChildren();
    this.list.show([]);
    this.text.replaceChildren(h("p", { class: "faint" }, "Nothing has been sent to a model in this session."));
  }

  async #load(turn) {
    this.asking = new AbortController();
    try {
      const view = await get("/turn", { session: this.session.ref, turn }, this.asking);
      if (turn !== this.turn) return;
      view.blocks.forEach((block, at) => (block.at = at));
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
    this.comment.show(this.turn);
    if (!this.turn) {
      this.head.replaceChildren(this.session.known ? h("h2", {}, "No turn yet") : skeleton(2));
      return;
    }
    const times = entry && timesOf(this.session, entry);
    const cost = entry ? costOf(entry) : null;
    const facts = [
      entry && h("span", {}, when(entry.valid_time)),
      entry && h("span", {}, h("b", {}, number(entry.prompt_tokens)), " tokens"),
      entry && h("span", { title: "begins like the prompt before, so a provider's cache can serve it" }, h("b", {}, percent(entry.cached_tokens, entry.prompt_tokens)), " reusable"),
      entry?.reported ? h("span", { title: "as the provider counted" }, `reported: ${reported(entry.reported)}`) : null,
      cost === null ? null : h("span", {}, h("b", {}, money(cost)), entry.usd == null ? " estimated" : ""),
      times ? h("span", {}, `${duration(times.model)} until the answer, ${duration(times.tools)} for tools`) : null,
      (view?.model ?? entry?.model) ? h("span", {}, view?.model ?? entry.model) : null,
      h("span", {}, (view ?? entry)?.policy ?? "plain"),
      view ? h("span", { class: "good", title: `the rebuilt prompt has the recorded hash ${view.prompt_hash}` }, "✓ verified") : null,
    ];
    this.head.replaceChildren(
      h("div", { class: "facts" }, h("h2", {}, `Turn ${this.turn}`), ...facts.filter(Boolean)),
      h(
        "p",
        { class: "outcome" },
        entry ? h("span", { class: breakTone(entry) }, capital(cacheOutcome(entry, (id) => this.#nameOf(id)))) : "",
        view ? h("span", { class: "faint" }, this.#folding()) : "",
      ),
      h("div", { class: "both" }, ...[said("User", entry?.user), said("Assistant", entry?.answer)].filter(Boolean)),
    );
  }

  /** What the model sees of the tool outputs: counted from the prompt itself, not from levels. */
  #folding() {
    const { blocks } = this.view;
    const having = (...kinds) => blocks.filter((block) => kinds.includes(block.shows)).length;
    const [files, outputs, folded, digests, listed] = [having("file"), having("output"), having("folded"), having("digest"), having("listed")];
    const hidden = blocks.reduce((all, block) => all + block.hidden_tokens, 0);
    const parts = [
      files ? `${count(files, "file")} in full` : null,
      outputs ? `${count(outputs, "tool output")} in full` : null,
      folded ? `${number(folded)} folded` : null,
      digests ? `${number(digests)} in a digest` : null,
      hidden ? `${number(hidden)} tokens hidden` : null,
      listed ? `${number(listed)} as metadata` : null,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  #nameOf(objectId) {
    const block = this.view?.blocks.find((each) => each.object_id === objectId && (each.kind === "file" || each.kind === "toolcall"));
    return block ? pieceName(block) : objectId.startsWith("chat:") ? "the conversation" : shortId(objectId);
  }

  #sizes() {
    const tokens = {};
    for (const block of this.view.blocks) tokens[block.shows] = (tokens[block.shows] ?? 0) + block.tokens;
    const all = Object.values(tokens).reduce((sum, each) => sum + each, 0) || 1;
    const present = Object.keys(KINDS).filter((kind) => tokens[kind] !== undefined);
    this.sizes.replaceChildren(
      ...present.map((kind) => {
        const bar = h("i", { class: `bar ${kind}` });
        bar.style.width = `${(100 * tokens[kind]) / all}%`;
        return h("div", { class: "size" }, h("span", { class: "name" }, swatch(kind), kindName(kind)), h("span", { class: "gauge" }, bar), h("span", { class: "figure" }, number(tokens[kind])));
      }),
    );
  }

  #listed() {
    if (!this.view) return;
    const wanted = this.filter.value.toLowerCase();
    const [, passes] = FILTERS[this.only.value];
    const matching = [...this.view.blocks, ...this.view.gone].filter(
      (block) => passes(block) && (!wanted || `${pieceName(block)} ${block.object_id ?? ""} ${kindName(block.shows)}`.toLowerCase().includes(wanted)),
    );
    this.list.show(matching);
  }

  async #read() {
    if (!this.view) return;
    if (this.showing === "prompt") this.#prompt();
    else if (this.showing === "answer") this.#answer();
    else await this.#changes();
    this.search.refresh();
  }

  #prompt() {
    this.text.replaceChildren(...this.view.blocks.map((block) => this.#piece(block)));
    this.text.scrollTop = 0;
  }

  #piece(block) {
    const body = h("pre", { class: "piece-text" }, ...textOf(block));
    const foldable = isShortened(block) || (block.shows === "listed" && block.kind);
    const toggle = foldable
      ? choice([["shown", "Shown"], ["full", "Full"]], { chosen: "shown", label: `What to show of ${pieceName(block)}`, onChoose: (what) => this.#unfold(block, piece, body, what) })
      : null;
    const compact = block.shows === "listed";
    const head = h(
      "header",
      { class: "piece-head" },
      compact ? null : swatch(block.shows),
      h("span", { class: "name", title: pieceName(block) }, compact ? "" : pieceName(block)),
      block.status === "fail" ? h("span", { class: "mark failed" }, "failed") : null,
      block.change === "same" ? null : h("span", { class: `mark ${block.change}` }, MARKS[block.change]),
      block.hidden_tokens ? h("span", { class: "faint" }, `${number(block.hidden_tokens)} tokens hidden`) : null,
      compact ? null : h("span", { class: "faint figure" }, number(block.tokens)),
      toggle,
      compact ? null : copyButton(() => block.text),
    );
    const piece = h("article", { class: `piece ${block.shows} is-${block.change}${compact ? " is-compact" : ""}`, "data-at": block.at }, head, body);
    return piece;
  }

  /** Show a piece as the model saw it, or in full with the hidden lines marked. */
  async #unfold(block, piece, body, what) {
    piece.querySelector(".unfolded, .skeleton")?.remove();
    piece.dataset.unfold = what;
    body.hidden = what === "full";
    if (what !== "full") return;
    const waiting = skeleton(5);
    piece.append(waiting);
    try {
      const view = await get("/unfold", { session: this.session.ref, turn: this.turn, block: block.at + 1 }, this.asking);
      if (piece.dataset.unfold === "full") waiting.replaceWith(foldView(view, { path: block.argument || block.name }));
    } catch (error) {
      waiting.remove();
      body.hidden = false;
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  async #changes() {
    const { turn } = this;
    if (turn < 2) return this.text.replaceChildren(h("p", { class: "faint" }, "This is the first prompt."));
    this.text.replaceChildren(skeleton(8));
    const difference = await get("/diff", { name: this.session.ref, from_turn: turn - 1, to_turn: turn }, this.asking);
    if (turn !== this.turn || this.showing !== "changes") return null;
    const alike = `The first ${number(difference.common_chars)} characters are the same as in the prompt before.`;
    return this.text.replaceChildren(h("p", { class: "faint" }, alike), diffView(difference.diff));
  }

  #answer() {
    const { view } = this;
    const took = Object.fromEntries(view.spans.filter((span) => span.what === "tool").map((span) => [span.object_id, duration(span.end - span.start)]));
    const name = (id) => [view.calls.find((call) => call.object_id === id)].filter(Boolean).map((call) => `${call.tool} ${call.argument}`)[0] ?? id;
    this.text.replaceChildren(
      ...[
        view.user ? h("section", { class: "message user" }, h("h3", {}, swatch("user"), "User"), markdown(view.user)) : null,
        view.answer ? h("section", { class: "message assistant" }, h("h3", {}, swatch("assistant"), "Assistant", copyButton(() => view.answer)), markdown(view.answer)) : null,
        view.calls.length ? h("h3", {}, count(view.calls.length, "tool call")) : null,
        ...view.calls.map((call) => callCard(this.session, call, { open: call.status !== "ok", took: took[call.object_id], onFault: this.onFault })),
        waterfall(view.spans, { nameOf: name, asked: Boolean(view.user) }),
        view.calls.length || view.answer ? null : h("p", { class: "faint" }, "The answer has no text and no tool calls."),
      ].filter(Boolean),
    );
    this.text.scrollTop = 0;
  }

  #reveal(block) {
    if (this.showing !== "prompt") this.#choose("prompt");
    const piece = this.text.querySelector(`[data-at="${block.at}"]`);
    this.text.querySelector(".is-chosen")?.classList.remove("is-chosen");
    piece?.classList.add("is-chosen");
    piece?.scrollIntoView({ block: "start" });
    if (block.object_id && block.kind) this.onObject(block.object_id);
  }

  #export() {
    if (this.view) exportDialog(this.session, this.turn, this.view.model, { onFault: this.onFault });
  }

  #tab(name, label) {
    return h("button", { type: "button", role: "tab", "data-view": name, "aria-selected": String(name === this.showing), onclick: () => this.#choose(name) }, label);
  }

  #choose(name) {
    this.showing = name;
    [...this.views.children].forEach((tab) => tab.setAttribute("aria-selected", String(tab.dataset.view === name)));
    this.#read().catch((error) => error.name !== "AbortError" && this.onFault(error));
  }
}

function row(block) {
  return [
    swatch(block.shows),
    h("span", { class: "name", title: pieceName(block) }, pieceName(block)),
    block.status === "fail" ? h("span", { class: "mark failed" }, "failed") : null,
    isShortened(block) ? h("span", { class: "mark folded", title: `${number(block.hidden_tokens)} tokens are hidden` }, block.shows) : null,
    block.change === "same" ? null : h("span", { class: `mark ${block.change}` }, MARKS[block.change]),
    h("span", { class: "figure", title: `${count(block.chars, "character")}` }, number(block.tokens)),
  ];
}

/** The exact text; the lines of a diff have their colours. */
function textOf(block) {
  const language = languageOf(block.text);
  if (language !== "diff") return [block.text];
  return block.text.split(/(?<=\n)/).map((line) => h("span", { class: lineClass(line, language) }, line));
}

const said = (who, text) => (text ? h("p", { class: "said" }, h("b", {}, who), " ", text) : null);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function reported({ input, cached, written, output }) {
  const parts = [["read from the cache", cached], ["written to it", written], ["other input", input], ["output", output]];
  return parts.filter(([, tokens]) => tokens).map(([name, tokens]) => `${number(tokens)} ${name}`).join(", ");
}
