// Memories that cannot both hold, side by side with their sources, to be resolved by a person.

import { get, post } from "../data/api.js";
import { instant, provenance, toMemory } from "../data/memory.js";
import { when } from "../data/words.js";
import { choice, h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { refused } from "../widgets/tabbed-page.js";

const WORDS = { a_wins: "the first one holds", b_wins: "the second one holds", both_valid: "both hold", merged: "another one took their place" };

export class ContradictionsPanel {
  constructor() {
    this.resolved = "open";
    this.list = h("div", {}, skeleton(6));
    this.element = h("div", {}, choice([["open", "Open"], ["all", "Resolved, too"]], { chosen: "open", label: "Which", onChoose: (name) => this.#choose(name) }), this.list);
  }

  async show() {
    const turn = (this.looking = {});
    const { contradictions } = await get("/v1/memory/contradictions", { resolved: this.resolved === "all" });
    const cards = await Promise.all(contradictions.map((pair) => this.#card(pair)));
    if (turn === this.looking) this.list.replaceChildren(...(cards.length ? cards : [h("p", { class: "faint", role: "status" }, "Nothing contradicts.")]));
  }

  #choose(name) {
    this.resolved = name;
    this.show().catch((error) => this.list.replaceChildren(refused(error)));
  }

  async #card(pair) {
    const sides = await Promise.all([pair.memory_a, pair.memory_b].map((id) => get("/v1/memory/show", { memory_id: id })));
    const note = h("input", { type: "text", placeholder: "Why (optional)", "aria-label": "Why" });
    const merged = h("input", { type: "text", placeholder: "What holds instead of both", "aria-label": "What holds instead of both" });
    const button = (label, resolution, value) => h("button", { type: "button", onclick: () => this.#resolve(card, pair, { resolution, note: note.value || null, value: value?.() ?? null }) }, label);
    const acts = pair.resolved_at === null;
    const card = h(
      "article",
      { class: "proposal contradiction", "aria-label": `Contradiction ${pair.id}` },
      h("p", {}, pair.reason, " ", h("span", { class: "faint" }, "detected ", when(Date.parse(pair.detected_at)))),
      h("div", { class: "sides" }, ...sides.map((side, at) => sideView(side, acts ? button("This one holds", at ? "b_wins" : "a_wins") : null))),
      acts
        ? h("div", { class: "filter" }, note, button("Both hold", "both_valid"), merged, button("Replace both", "merged", () => merged.value || null))
        : h("p", { class: "faint" }, `${WORDS[pair.resolution] ?? pair.resolution}${pair.resolution_note ? `: ${pair.resolution_note}` : ""}`),
    );
    return card;
  }

  async #resolve(card, pair, decision) {
    try {
      const { resolution } = await post(`/contradictions/${encodeURIComponent(pair.id)}/resolve`, decision);
      card.replaceChildren(h("p", { role: "status" }, `Resolved: ${WORDS[resolution]}.`));
    } catch (error) {
      fault(error);
    }
  }
}

function sideView(details, button) {
  const { memory } = details;
  return h(
    "section",
    { class: "side" },
    h("p", {}, h("a", { href: toMemory(memory.id) }, memory.text)),
    h("p", { class: "faint" }, `${memory.kind}, from ${provenance(memory)}, true from `, when(instant(memory.valid_from))),
    h("p", { class: "faint" }, `shown ${details.retrieval_count} times, used ${details.citation_count}, ignored ${details.ignore_count}`),
    button,
  );
}
