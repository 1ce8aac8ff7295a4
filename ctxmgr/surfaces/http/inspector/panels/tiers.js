// What a prompt gets from memory, tier by tier, with tokens and origin; and what it does not, and why.

import { get } from "../data/api.js";
import { memoriesById, provenance, toMemory } from "../data/memory.js";
import { number, percent } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { plainTable } from "../widgets/plain-table.js";
import { refused } from "../widgets/tabbed-page.js";

const TIERS = ["critical", "relevant", "background", "index"];
const HIDDEN_SHOWN = 300;

export class TiersPanel {
  constructor() {
    this.filter = h("input", { type: "search", placeholder: "What the agent was asked", "aria-label": "Message" });
    this.file = h("input", { type: "search", placeholder: "Current file", "aria-label": "Current file" });
    this.error = h("input", { type: "search", placeholder: "Recent error", "aria-label": "Recent error" });
    this.budget = h("input", { type: "number", min: 1, value: "8000", "aria-label": "Budget in tokens" });
    this.result = h("div", {}, skeleton(8));
    this.element = h("div", {}, h("form", { class: "filter", onsubmit: (event) => this.#asked(event) }, this.filter, this.file, this.error, this.budget, h("button", {}, "Assemble")), this.result);
  }

  async show() {
    const turn = (this.looking = {});
    const query = { budget: this.budget.value || null, message: this.filter.value || null, current_file: this.file.value || null, recent_error: this.error.value || null };
    const [assembled, memories] = await Promise.all([get("/context/assemble", query), memoriesById()]);
    if (turn === this.looking) this.#draw(assembled, memories);
  }

  async #asked(event) {
    event.preventDefault();
    this.result.replaceChildren(skeleton(8));
    try {
      await this.show();
    } catch (error) {
      this.result.replaceChildren(refused(error));
    }
  }

  #draw({ context, token_count: tokens, tiers, items }, memories) {
    const budget = Number(this.budget.value) || tokens;
    const name = ({ id }) => memories.get(id)?.text ?? "An open contradiction";
    const link = (item) => (memories.has(item.id) ? h("a", { href: toMemory(item.id) }, name(item)) : h("a", { href: "#/memory/contradictions" }, name(item)));
    const from = ({ id }) => (memories.has(id) ? provenance(memories.get(id)) : "–");
    const shown = TIERS.flatMap((label, at) => {
      const rows = items.filter((item) => item.shown && item.tier === at + 1).map((item) => [number(item.tokens), link(item), from(item), item.why]);
      return [h("h3", {}, `Tier ${at + 1}, ${label}: ${number(tiers[`tier${at + 1}`])} tokens`), plainTable(["#tokens", "memory", "from", "why"], rows, { label: `Tier ${at + 1}`, empty: "Nothing." })];
    });
    const hidden = items.filter((item) => !item.shown);
    const omitted = hidden.slice(0, HIDDEN_SHOWN).map((item) => [String(item.tier), link(item), from(item), item.why, item.reason]);
    this.result.replaceChildren(
      h("div", { class: "facts", role: "status" }, h("span", {}, h("b", {}, number(tokens)), ` of ${number(budget)} tokens (${percent(tokens, budget)})`), h("span", {}, `${number(memories.size)} remembered in all`)),
      ...shown,
      h("h3", {}, "Not shown"),
      plainTable(["#tier", "memory", "from", "offered because", "left out because"], omitted, { label: "Not shown", empty: "Everything that was offered is shown." }),
      ...(hidden.length > HIDDEN_SHOWN ? [h("p", { class: "faint" }, `${number(hidden.length - HIDDEN_SHOWN)} more`)] : []),
      h("details", {}, h("summary", {}, "The text"), h("pre", { class: "then" }, context)),
    );
  }
}
