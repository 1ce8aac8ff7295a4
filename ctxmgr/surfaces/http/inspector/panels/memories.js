// Every memory, forgotten ones included, and how many there were over time.

import { growth, instant, memoriesById, provenance, toMemory } from "../data/memory.js";
import { number, timeText, when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { plainTable } from "../widgets/plain-table.js";

const LISTED_MAX = 500;

export class MemoriesPanel {
  constructor() {
    this.filter = h("input", { type: "search", placeholder: "Filter memories", "aria-label": "Filter memories", oninput: () => this.#list() });
    this.chart = h("div", {}, skeleton(2));
    this.list = h("div", {}, skeleton(8));
    this.element = h("div", {}, this.chart, h("div", { class: "filter" }, this.filter), this.list);
  }

  async show() {
    this.memories = [...(await memoriesById()).values()].sort((a, b) => instant(b.learnt_at) - instant(a.learnt_at));
    this.chart.replaceChildren(growthChart(growth(this.memories)));
    this.#list();
  }

  #list() {
    if (!this.memories) return;
    const words = this.filter.value.toLowerCase();
    const found = this.memories.filter(({ text, kind, type, author }) => `${text} ${kind} ${type} ${author}`.toLowerCase().includes(words));
    const rows = found.slice(0, LISTED_MAX).map((memory) => [
      h("a", { href: toMemory(memory.id) }, memory.text),
      `${memory.type}, ${memory.kind}`,
      provenance(memory),
      memory.visibility,
      when(instant(memory.valid_from)),
      memory.valid_to === null ? "holds" : when(instant(memory.valid_to)),
    ]);
    this.list.replaceChildren(
      plainTable(["memory", "kind", "from", "visible", "true from", "to"], rows, { label: "Memories", empty: "Nothing is remembered yet." }),
      ...(found.length > LISTED_MAX ? [h("p", { class: "faint" }, `${number(found.length - LISTED_MAX)} more: filter them.`)] : []),
    );
  }
}

/** Bars of what was learnt until then, with what still held filled. */
function growthChart(points) {
  if (!points.length) return h("p", { class: "faint" }, "Nothing is remembered yet.");
  const most = points.at(-1).learnt;
  const bar = ({ time, learnt, held }) => {
    const all = h("i", { class: "learnt", title: `${timeText(time)}: ${number(learnt)} learnt, ${number(held)} held` });
    const still = h("i", { class: "held" });
    all.style.height = `${(100 * learnt) / most}%`;
    still.style.height = `${learnt ? (100 * held) / learnt : 0}%`;
    all.append(still);
    return all;
  };
  const { held } = points.at(-1);
  return h(
    "figure",
    { class: "growth", role: "img", "aria-label": `${number(most)} memories learnt, ${number(held)} hold` },
    h("figcaption", { class: "facts" }, h("span", {}, h("b", {}, number(most)), " learnt"), h("span", {}, h("b", {}, number(held)), " hold"), h("span", {}, `since ${timeText(points[0].time)}`)),
    h("div", { class: "growth-bars" }, ...points.map(bar)),
  );
}
