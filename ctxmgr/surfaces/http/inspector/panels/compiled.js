// What a prompt with a message would get of the notes, what was left out, and why.
//
//   #/knowledge/compiled/MESSAGE

import { address } from "../data/address.js";
import { get } from "../data/api.js";
import { number, percent } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { plainTable } from "../widgets/plain-table.js";
import { toNote } from "./notes.js";

export class CompiledPanel {
  constructor() {
    this.filter = h("input", { type: "search", placeholder: "What a user would say", "aria-label": "Message" });
    this.budget = h("input", { type: "number", min: 1, placeholder: "8192", "aria-label": "Budget in tokens" });
    this.result = h("div", {}, h("p", { class: "faint" }, "Nothing is stored and no model is asked."));
    this.element = h("div", {}, h("form", { class: "filter", onsubmit: (event) => this.#asked(event) }, this.filter, this.budget, h("button", {}, "Compile")), this.result);
  }

  async show([message]) {
    if (!message) return;
    this.filter.value = message;
    const turn = (this.looking = {});
    this.result.replaceChildren(skeleton(8));
    const compiled = await get("/compile", { message, budget: this.budget.value || null });
    if (turn === this.looking) this.#draw(compiled);
  }

  async #asked(event) {
    event.preventDefault();
    const wanted = address("knowledge", "compiled", this.filter.value.trim());
    if (location.hash === wanted) await this.show([this.filter.value.trim()]);
    else location.hash = wanted;
  }

  #draw({ text, tokens, budget_tokens: budget, topics, included, left_out: omitted }) {
    const shown = included.map((each) => [
      number(each.tokens),
      each.slot,
      each.path ? h("a", { href: toNote(each.path) }, each.path) : each.name,
      each.topic ?? "–",
      each.score === null ? "–" : each.score.toFixed(3),
      each.cut_tokens ? `${number(each.cut_tokens)} tokens cut` : "",
    ]);
    const hidden = omitted.map((each) => [each.tokens === null ? "–" : number(each.tokens), each.slot, each.name, each.score === null ? "–" : each.score.toFixed(3), each.reason]);
    this.result.replaceChildren(
      h("div", { class: "facts", role: "status" }, h("span", {}, h("b", {}, number(tokens)), ` of ${number(budget)} tokens (${percent(tokens, budget)})`), h("span", {}, topics.length ? `topics: ${topics.join(", ")}` : "no topic is active")),
      h("h3", {}, "Included"),
      plainTable(["#tokens", "slot", "note", "topic", "#score", ""], shown, { label: "Included", empty: "Nothing." }),
      h("h3", {}, "Left out"),
      plainTable(["#tokens", "slot", "note", "#score", "why"], hidden, { label: "Left out", empty: "Nothing was left out." }),
      h("details", {}, h("summary", {}, "The text"), h("pre", { class: "then" }, text)),
    );
  }
}
