// Two sessions side by side: what each used, where they part, and a prompt of each compared.

import { toSession } from "../data/address.js";
import { get } from "../data/api.js";
import { count, money, number, percent } from "../data/words.js";
import { diffView } from "../widgets/diff-view.js";
import { h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { missing } from "./missing.js";

export class ComparePage {
  constructor([one, other]) {
    this.names = [one, other];
    this.ending = new AbortController();
    this.turns = this.names.map((name) => h("input", { type: "number", min: "1", "aria-label": `Turn of ${name}`, onchange: () => this.load() }));
    this.table = h("div", { class: "compared" }, skeleton(6));
    this.difference = h("div", {}, skeleton(8));
    this.element = h(
      "div",
      { class: "compare page" },
      h("h1", {}, "Compare ", h("a", { href: toSession(one) }, one), " with ", h("a", { href: toSession(other) }, other)),
      this.table,
      h("div", { class: "filter" }, h("b", {}, "Prompts"), ...this.names.flatMap((name, at) => [h("label", {}, `turn of ${name} `, this.turns[at])])),
      this.difference,
    );
  }

  async load() {
    const [one, other] = this.names;
    const [turn, otherTurn] = this.turns.map((input) => input.value || null);
    try {
      const view = await get("/compare", { session: `session:${one}`, other: `session:${other}`, turn, other_turn: otherTurn }, this.ending);
      this.#draw(view);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code === "not_found" && !turn && !otherTurn) this.element.replaceChildren(missing(error.message));
      else fault(error);
    }
  }

  show() {}

  key() {
    return false;
  }

  close() {
    this.ending.abort();
  }

  #draw({ one, other, shared_turns: shared, prompts }) {
    const rows = [
      ["turns", (used) => number(used.turns)],
      ["models", (used) => used.models.join(", ") || "–"],
      ["policy", (used) => used.policy ?? "plain"],
      ["tool calls", (used) => number(used.tool_calls)],
      ["tokens sent", (used) => `${number(used.prompt_tokens)}${used.reported ? "" : " (counted)"}`],
      ["reuse", (used) => `${percent(used.cached_tokens, used.prompt_tokens)} ${used.reported ? "reported" : "reusable"}`],
      ["cost", (used) => money(used.usd)],
    ];
    this.table.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, h("th", {}), h("th", {}, one.session_id), h("th", {}, other.session_id))), h("tbody", {}, ...rows.map(([name, cell]) => h("tr", {}, h("th", {}, name), h("td", {}, cell(one)), h("td", {}, cell(other)))))),
      h("p", { class: "lead" }, shared ? `The first ${count(shared, "turn")} ${shared === 1 ? "is" : "are"} the same.` : "They have no turn in common."),
    );
    if (!prompts) return this.difference.replaceChildren(h("p", { class: "faint" }, "One of them has no turn yet."));
    this.turns[0].value = prompts.from_turn;
    this.turns[1].value = prompts.to_turn;
    return this.difference.replaceChildren(
      h("p", { class: "faint" }, prompts.same ? "Both prompts are the same." : `The first ${number(prompts.common_chars)} characters are the same. − is ${one.session_id}, + is ${other.session_id}.`),
      ...(prompts.same ? [] : [diffView(prompts.diff)]),
    );
  }
}
