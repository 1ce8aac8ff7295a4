// The steps of a range of ticks as text, with filters, and forms to tag the range or comment on it.

import { EVENTS, passages } from "../data/experience.js";
import { number, when } from "../data/words.js";
import { h, skeleton, swatch } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { EVENT_COLOURS, shortConcept } from "../widgets/tick-chart.js";

const CHARS_MAX = 20_000;
const CONCEPTS_SHOWN = 5;

export class RecallPanel {
  constructor(experience, { onTick, onMarked }) {
    this.experience = experience;
    this.onTick = onTick;
    this.onMarked = onMarked;
    this.title = h("h3", {}, "Recall");
    this.filter = h("input", { type: "search", placeholder: "Only steps with this text", "aria-label": "Recall text" });
    this.kind = h("select", { "aria-label": "Kind of event", onchange: () => this.#recall() }, h("option", { value: "" }, "all events"), ...Object.entries(EVENTS).map(([name, label]) => h("option", { value: name }, label)));
    this.result = h("div", { class: "recalled" }, skeleton(6));
    this.forms = h("div", { class: "mark-forms" }, this.#form("Tag", "Tag these ticks", (text) => experience.tag(text, this.range)), this.#form("Comment", "Comment on these ticks", (text) => experience.comment(text, this.range)));
    this.element = h(
      "section",
      { class: "recall", "aria-label": "Recall" },
      this.title,
      h("form", { class: "filter", onsubmit: (event) => this.#submitted(event) }, this.filter, this.kind, h("button", {}, "Recall")),
      this.forms,
      this.result,
    );
  }

  show(range, { brushed }) {
    this.range = range;
    const [first, last] = range;
    this.title.textContent = brushed ? `Recall of the selected ticks ${number(first)} to ${number(last)}` : "Recall of the ticks shown";
    this.forms.hidden = !brushed;
    this.#recall();
  }

  #submitted(event) {
    event.preventDefault();
    this.#recall();
  }

  async #recall() {
    this.steps = [];
    this.result.replaceChildren(skeleton(6));
    await this.#page();
  }

  /** Load the next page; an answer to an older question is dropped. */
  async #page() {
    const asked = (this.asked = {});
    try {
      const { steps, more } = await this.experience.recall(this.range, { text: this.filter.value.trim(), kind: this.kind.value, offset: this.steps.length });
      if (asked !== this.asked) return;
      this.steps.push(...steps);
      this.#draw(more);
    } catch (error) {
      if (asked !== this.asked || error.name === "AbortError") return;
      this.result.replaceChildren(h("p", { class: "bad" }, error.message));
      fault(error);
    }
  }

  #draw(more) {
    this.result.replaceChildren(
      ...(this.steps.length ? [] : [h("p", { class: "faint" }, "Nothing at these ticks matches, or it is not kept token by token any more.")]),
      ...passages(this.steps).map((passage) => this.#passage(passage)),
      ...(more ? [h("button", { type: "button", onclick: () => this.#page() }, "Show more")] : []),
    );
  }

  #passage({ event_type: kind, role, steps }) {
    const [first, last] = [steps[0], steps.at(-1)];
    return h(
      "article",
      { class: "card passage" },
      h("header", {}, swatch(EVENT_COLOURS[kind] ?? "fresh"), h("b", {}, EVENTS[kind] ?? kind), h("span", { class: "faint" }, role ?? ""), h("span", { class: "faint figure" }, first === last ? number(first.tick) : `${number(first.tick)}–${number(last.tick)}`), h("span", { class: "faint" }, when(first.time))),
      h("pre", {}, ...steps.map((step) => this.#token(step))),
    );
  }

  #token(step) {
    const scores = Object.entries(step.concept_activations).sort(([, a], [, b]) => b - a).slice(0, CONCEPTS_SHOWN);
    const left = step.content.length - CHARS_MAX;
    const text = left > 0 ? `${step.content.slice(0, CHARS_MAX)}… ${number(left)} more characters` : step.content;
    const title = [`tick ${number(step.tick)}`, ...scores.map(([concept, score]) => `${shortConcept(concept)} ${score.toFixed(2)}`)].join("\n");
    return h("span", { class: "token", title, "data-tick": step.tick, onclick: () => this.onTick(step.tick) }, text);
  }

  #form(label, placeholder, send) {
    const input = h("input", { type: "search", placeholder, "aria-label": placeholder, required: true });
    const submit = async (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      try {
        await send(input.value.trim());
        input.value = "";
        this.onMarked();
      } catch (error) {
        fault(error);
      }
    };
    return h("form", { class: "filter", onsubmit: submit }, input, h("button", {}, label));
  }
}
