// A session as of any moment, on both time axes: valid time and system time.
//
//   believed   what the store contained at that system time: what the agent could know
//   true       what is known today about that valid time

import { get } from "../data/api.js";
import { count, isHash, number, timeText, when } from "../data/words.js";
import { codeView } from "../widgets/code-view.js";
import { diffView } from "../widgets/diff-view.js";
import { h, skeleton } from "../widgets/dom.js";

const STEPS = 1_000;
const SETTLE_MS = 120;

export class AsOfPanel {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.valid = this.#axis("valid", "Valid time", "the moment in question: what was true then");
    this.system = this.#axis("system", "System time", "what was stored by then: what the agent could know");
    this.together = h("input", { type: "checkbox", checked: true, onchange: () => this.#moved("valid") });
    this.result = h("div", { class: "as-of" }, skeleton(6));
    this.difference = h("div", { class: "object" });
    this.element = h(
      "section",
      { class: "panel time", "aria-label": "As of" },
      h("p", { class: "lead" }, "Go back to a moment: which files were not as the agent believed them to be? Click a turn above, or move the sliders."),
      h(
        "div",
        { class: "axes" },
        this.valid.element,
        this.system.element,
        h("label", {}, this.together, "same moment on both axes: what the agent could know then"),
      ),
      h("div", { class: "columns" }, this.result, this.difference),
    );
  }

  /** Show the session as of the end of a turn, or as of now. */
  show(turn) {
    if (!this.session.overview) return null;
    this.#range();
    const at = this.session.entry(turn)?.valid_time ?? this.to;
    if (this.requested === undefined) return this.#set(at, at);
    this.#moveAxis(this.valid, this.valid.instant);
    return this.#moveAxis(this.system, this.system.instant);
  }

  /** Go to the end of a turn on the valid time axis, and on the other if they move together. */
  goTo(turn) {
    const at = this.session.entry(turn)?.valid_time;
    if (at === undefined || at === null) return;
    this.#range();
    this.#set(at, this.together.checked ? at : this.system.instant);
  }

  #axis(name, label, title) {
    const slider = h("input", { type: "range", min: "0", max: STEPS, step: "1", id: `axis-${name}`, "aria-label": label, oninput: () => this.#slid(name) });
    const output = h("output", { for: `axis-${name}` });
    const turns = h("span", { class: "faint" });
    const axis = { slider, output, turns, instant: null };
    axis.element = h("div", { class: "axis", title }, h("label", { for: `axis-${name}` }, label), slider, output, turns);
    return axis;
  }

  #range() {
    const { overview, entries } = this.session;
    this.from = overview?.started ?? entries[0]?.valid_time ?? Date.now();
    this.to = Math.max(overview?.last_activity ?? this.from, entries.at(-1)?.valid_time ?? this.from, this.from + 1);
  }

  #slid(name) {
    const axis = this[name];
    axis.instant = Math.round(this.from + ((this.to - this.from) * axis.slider.value) / STEPS);
    this.#moved(name);
  }

  #moved(name) {
    const lead = this[name].instant;
    if (this.together.checked) this.#set(lead, lead);
    else this.#set(this.valid.instant, this.system.instant);
  }

  #set(valid, known) {
    this.#moveAxis(this.valid, valid);
    this.#moveAxis(this.system, known);
    this.requested = `${valid} ${known}`;
    this.difference.replaceChildren();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.#load(valid, known), SETTLE_MS);
  }

  #moveAxis(axis, instant) {
    axis.instant = instant;
    axis.slider.value = String(Math.round(((instant - this.from) / (this.to - this.from)) * STEPS));
    axis.output.textContent = timeText(instant, { exact: true });
    axis.output.title = new Date(instant).toISOString().replace("T", " ").replace("Z", " UTC");
    const before = this.session.entries.findLast((entry) => entry.valid_time !== null && entry.valid_time <= instant);
    axis.turns.textContent = before ? `after turn ${before.turn}` : "before the first turn";
  }

  async #load(valid, known) {
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const view = await get("/as-of", { name: this.session.ref, valid_time: valid, system_time: known }, this.asking);
      if (view.differing) this.#draw(view);
      else this.result.replaceChildren(h("p", { class: "faint" }, "At this system time, no such session was known for this valid time."));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code !== "not_found") return this.onFault(error);
      this.result.replaceChildren(h("p", { class: "faint" }, "The session did not exist at this moment."));
    }
  }

  #draw(view) {
    const wrong = new Set(view.differing.map((object) => object.object_id));
    const agreeing = view.objects.filter((object) => !wrong.has(object.object_id));
    const facts = [count(view.turns, "turn"), `${number(view.active)} active`, `${number(view.metadata)} metadata`, `${number(view.indexed)} indexed`, `${number(view.pinned)} pinned`];
    this.result.replaceChildren(
      h("h3", {}, `Not as believed: ${number(view.differing.length)} of ${number(view.compared)} compared`),
      view.differing.length ? this.#table(view.differing, "differs") : h("p", { class: "good" }, "Everything was as the agent believed."),
      h("details", {}, h("summary", {}, `Active or pinned then, and as believed: ${number(agreeing.length)}`), this.#table(agreeing, "matches")),
      h("div", { class: "facts" }, ...facts.map((fact) => h("span", {}, fact))),
    );
    if (view.differing.length && !this.difference.firstChild) this.#compare(view.differing[0]).catch(this.onFault);
  }

  #table(objects, state) {
    return h(
      "div",
      { class: "as-of-rows" },
      ...objects.map((object) =>
        h(
          "button",
          { type: "button", class: "as-of-row", onclick: () => this.#compare(object) },
          h("span", { class: "name", title: object.object_id }, object.name),
          h("span", { class: "faint" }, isHash(object.object_id) ? "" : object.object_id),
          h("span", { class: state === "differs" ? "bad" : "good" }, state),
        ),
      ),
    );
  }

  async #compare({ object_id: objectId, name }) {
    const [valid, known] = [this.valid.instant, this.system.instant];
    const comparison = (this.comparing = `${objectId} ${valid} ${known}`);
    try {
      const view = await get("/as-of", { name: objectId, session: this.session.ref, valid_time: valid, system_time: known }, this.session.ending);
      if (comparison !== this.comparing || this.requested !== `${valid} ${known}`) return;
      this.difference.replaceChildren(
        h("h2", { title: objectId }, name),
        h("div", { class: "facts" }, summary("believed", view.believed), summary("true", view.true)),
        h("h3", {}, "From what was believed to what was true"),
        diffView(view.diff, { same: "No differences: what was believed was true." }),
        h("details", { class: "believed", open: !view.diff }, h("summary", {}, "Text as believed"), view.content === null ? h("p", { class: "faint" }, "No text.") : codeView(view.content, { path: name })),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }
}

function summary(word, view) {
  return h("span", {}, h("b", {}, word), ...(view ? [" since ", when(view.valid_time, { exact: true }), `, ${count(view.char_count, "character")}`] : [": did not exist"]));
}
