// What was recorded of a session, token by token: a timeline of events, concept curves, tags and
// comments, recall of a brushed range, windows by fidelity, and storage by level.
//
// Only some ticks are shown at a time. The address has them, so that a link leads to the same place.

import { address, go, toAudit, toSession } from "../data/address.js";
import { Experience, TICKS_MAX, conceptsOf, parseRange, rangeText } from "../data/experience.js";
import { count, number } from "../data/words.js";
import { RecallPanel } from "../panels/recall.js";
import { StoragePanel, WindowsPanel } from "../panels/windows.js";
import { choice, h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { CURVE_COLOURS, TickChart, shortConcept } from "../widgets/tick-chart.js";

const SIZES = [200, 500, TICKS_MAX];
const ALL = "all";
const SIZE_FIRST = 500;
const CONCEPTS_LISTED = 12;
const MARKS_LISTED = 200;
const QUIET_MS = 1_000;

export class ExperiencePage {
  constructor([id]) {
    this.experience = new Experience(id);
    this.size = SIZE_FIRST;
    this.chosen = null; // concepts that a person chose; until then, the highest ones
    this.chart = new TickChart({ onBrush: (range) => this.#brushed(range) });
    this.recall = new RecallPanel(this.experience, { onTick: (tick) => this.#brushed([tick, tick]), onMarked: () => this.#look() });
    this.windows = new WindowsPanel({ onTick: (tick) => this.#goTo(tick - Math.floor(this.ticks / 2)) });
    this.storage = new StoragePanel();
    this.facts = h("div", { class: "facts", role: "status" }, skeleton(1));
    this.moves = h("div", { class: "filter moves" }, ...this.#moves());
    this.concepts = h("div", { class: "concepts", role: "group", "aria-label": "Concepts" });
    this.marks = h("section", { class: "marks", "aria-label": "Tags and comments" }, h("h3", {}, "Tags and comments"), skeleton(3));
    this.body = [this.moves, this.chart.element, this.concepts, h("div", { class: "experience-columns" }, this.recall.element, h("div", {}, this.marks, this.windows.element, this.storage.element))];
    this.place = h("div", { class: "experience-body" }, ...this.body);
    this.element = h("div", { class: "experience page" }, h("header", { class: "session-head" }, h("h1", {}, "Experience of ", h("a", { href: toSession(id) }, id)), this.facts, h("a", { class: "faint", href: toAudit(id) }, "Audit log")), this.place);
  }

  async load() {
    await Promise.all([this.windows.load(this.experience), this.storage.load(this.experience)]);
  }

  async show([, range]) {
    const asked = parseRange(range, TICKS_MAX);
    if (this.view && String(asked) === String(this.asked)) return;
    this.asked = asked;
    await this.#look();
  }

  close() {
    clearTimeout(this.soon);
    this.experience.close();
    this.chart.close();
  }

  /** Something of this session may have been recorded: look again after a pause, if the end is shown. */
  notify(event) {
    const { session_id: id } = event.data;
    if (this.asked || (id && id !== this.experience.id)) return;
    this.soon ??= setTimeout(() => {
      this.soon = null;
      this.#look();
    }, QUIET_MS);
  }

  reconnected() {
    this.notify({ data: {} });
  }

  redraw() {
    this.chart.draw();
  }

  key(name) {
    if (name === "/") this.recall.filter.focus();
    else if (name === "ArrowLeft") this.#move(-1);
    else if (name === "ArrowRight") this.#move(1);
    else if (name === "End") go("experience", this.experience.id);
    else if (name === "Home") this.#goTo(1);
    else return false;
    return true;
  }

  /** Load the ticks that are asked for; by default the last ones. */
  async #look() {
    const turn = (this.looking = {});
    this.place.classList.add("is-loading");
    try {
      if (!this.asked) await this.experience.marks([1, 1]);
      if (turn !== this.looking) return;
      if (this.size === ALL && !this.asked) {
        const [lastMarks, { steps, width }] = await Promise.all([this.experience.marks(), this.experience.curves()]);
        if (turn === this.looking) this.#show([1, Math.max(1, this.experience.last)], lastMarks, steps, width);
        return;
      }
      const view = this.asked ?? [Math.max(1, this.experience.last - this.ticks + 1), Math.max(1, this.experience.last)];
      const [marks, steps] = await Promise.all([this.experience.marks(view), this.experience.steps(view)]);
      if (turn === this.looking) this.#show(view, marks, steps);
    } catch (error) {
      if (turn === this.looking && error.name !== "AbortError") this.#failed(error);
    }
  }

  /** How many ticks are shown, unless all of them are. */
  get ticks() {
    return this.size === ALL ? SIZE_FIRST : this.size;
  }

  #show([first, end], marks, steps, width = 1) {
    this.place.classList.remove("is-loading");
    const { last } = this.experience;
    if (!last) return this.#nothing(`No experience of session “${this.experience.id}” is recorded.`);
    if (this.place.firstChild !== this.moves) this.place.replaceChildren(...this.body);
    const view = [first, Math.max(first, Math.min(end, last))];
    if (this.view && String(this.view) !== String(view)) this.chart.brush = null;
    Object.assign(this, { view, steps, width });
    this.shownMarks = marks;
    const kept = steps.reduce((sum, step) => sum + (step.kept ?? 1), 0);
    const compressed = first > last ? 0 : view[1] - first + 1 - kept;
    this.facts.replaceChildren(
      h("span", {}, `ticks ${number(first)} to ${number(view[1])} of ${number(last)}`),
      h("span", {}, `${count(marks.tags.length, "tag")}, ${count(marks.comments.length, "comment")}${width > 1 ? " on the last ticks" : ""}`),
      ...(width > 1 ? [h("span", {}, `highest scores of ${number(width)} ticks each`)] : []),
      ...(compressed > 0 ? [h("span", { class: "warn" }, `${count(compressed, "tick")} not kept token by token`)] : []),
    );
    this.#drawChart();
    this.#listMarks();
    this.#recallRange();
    this.windows.follow(view, last);
  }

  #drawChart() {
    const all = conceptsOf(this.steps);
    const concepts = this.chosen ?? all.slice(0, CURVE_COLOURS.length);
    this.chart.show({ view: this.view, steps: this.steps, marks: this.shownMarks, concepts, width: this.width });
    const listed = [...new Set([...concepts, ...all.slice(0, CONCEPTS_LISTED)])];
    const other = h("input", { type: "search", placeholder: "Another concept", "aria-label": "Another concept", list: "concepts-seen" });
    this.concepts.replaceChildren(
      ...(listed.length ? [] : [h("span", { class: "faint" }, "No concept was scored at these ticks; lenses need a concept pack.")]),
      ...listed.map((concept) => h("button", { type: "button", class: "quiet", title: concept, "aria-pressed": String(concepts.includes(concept)), onclick: () => this.#toggle(concepts, concept) }, shortConcept(concept))),
      h("form", { onsubmit: (event) => this.#addConcept(event, concepts, other) }, other, h("datalist", { id: "concepts-seen" }, ...all.slice(0, MARKS_LISTED).map((concept) => h("option", { value: concept })))),
    );
  }

  #toggle(concepts, concept) {
    this.chosen = concepts.includes(concept) ? concepts.filter((other) => other !== concept) : [...concepts, concept].slice(-CURVE_COLOURS.length);
    this.#drawChart();
  }

  #addConcept(event, concepts, input) {
    event.preventDefault();
    const name = input.value.trim();
    if (name && !concepts.includes(name)) this.#toggle(concepts, name);
  }

  #listMarks() {
    const { tags, comments } = this.shownMarks;
    const rows = [
      ...comments.map((comment) => [comment, "comment", comment.content]),
      ...tags.map((tag) => [tag, tag.source === "manual" ? "tag" : `tag, ${tag.source.replaceAll("_", " ")}`, tag.note ? `${tag.name}: ${tag.note}` : tag.name]),
    ].sort(([a], [b]) => a.start_tick - b.start_tick);
    const left = rows.length - MARKS_LISTED;
    this.marks.replaceChildren(
      h("h3", {}, "Tags and comments"),
      ...(rows.length ? [] : [h("p", { class: "faint" }, "None at these ticks.")]),
      ...rows.slice(0, MARKS_LISTED).map(([mark, kind, text]) =>
        h("button", { type: "button", class: "mark-row", onclick: () => this.#brushed([mark.start_tick, mark.end_tick]) }, h("span", { class: "figure faint" }, ticksText(mark.start_tick, mark.end_tick)), h("span", { class: "faint" }, kind), h("span", { class: "mark-text" }, text)),
      ),
      ...(left > 0 ? [h("p", { class: "faint" }, `${number(left)} more; show fewer ticks to see them.`)] : []),
    );
  }

  #brushed([first, last]) {
    if (!this.view) return;
    const within = [Math.max(first, this.view[0]), Math.min(last, this.view[1])];
    this.chart.select(within);
    this.#recallRange();
  }

  #recallRange() {
    this.recall.show(this.chart.brush ?? this.view, { brushed: this.chart.brush !== null });
  }

  #moves() {
    const names = [...SIZES.map((size) => [String(size), number(size)]), [ALL, "all"]];
    const sizes = choice(names, { chosen: String(this.size), label: "Ticks shown", onChoose: (size) => this.#resize(size === ALL ? ALL : Number(size)) });
    const button = (label, name, act) => h("button", { type: "button", title: name, "aria-label": name, onclick: act }, label);
    return [
      button("⇤", "First ticks", () => this.#goTo(1)),
      button("←", "Earlier ticks", () => this.#move(-1)),
      button("→", "Later ticks", () => this.#move(1)),
      button("⇥", "Last ticks", () => go("experience", this.experience.id)),
      h("span", { class: "faint" }, "show"),
      sizes,
      h("span", { class: "faint" }, "ticks; drag over the chart to select some"),
    ];
  }

  #resize(size) {
    this.size = size;
    if (this.asked && size === ALL) go("experience", this.experience.id);
    else if (this.asked) this.#goTo(this.asked[0]);
    else this.#look();
  }

  #move(by) {
    if (this.view) this.#goTo(this.view[0] + by * this.ticks);
  }

  #goTo(wanted) {
    if (!this.experience.last) return;
    const first = Math.max(1, Math.min(wanted, this.experience.last - this.ticks + 1));
    location.hash = address("experience", this.experience.id, rangeText([first, first + this.ticks - 1]));
  }

  #failed(error) {
    this.place.classList.remove("is-loading");
    if (error.code === "not_found") return this.#nothing("No experience is recorded on this server.");
    fault(error);
    this.#nothing(error.message, error.next);
  }

  /** Say why there is nothing to see, and how there would be. */
  #nothing(message, next = null) {
    this.facts.replaceChildren();
    this.place.replaceChildren(
      h("div", { class: "hint" }, h("p", {}, h("b", {}, message)), h("p", { class: "faint" }, next ?? h("span", {}, "Record some with ", h("code", {}, "ctxmgr run --experience FOLDER"), ", or with ", h("code", {}, "experience ="), " in the settings of the agent and of this server."))),
    );
    return null;
  }
}

const ticksText = (first, last) => (first === last ? number(first) : `${number(first)}–${number(last)}`);
