// One memory: at all lengths, where it was learnt, how it was used, and its history on both time axes.
//
//   #/memory/one/ID

import { get } from "../data/api.js";
import { toSession } from "../data/address.js";
import { instant, provenance, toMemory } from "../data/memory.js";
import { when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { plainTable } from "../widgets/plain-table.js";
import { timePlane } from "../widgets/time-plane.js";

const LENGTHS = [["content_full", "In full"], ["content_summary", "Summary"], ["content_compressed", "Compressed"], ["content_index", "In the index"]];

export class MemoryPanel {
  constructor() {
    this.element = h("div", { class: "memory" }, h("p", { class: "faint" }, "Choose a memory on another page."));
  }

  async show([id]) {
    if (!id) return;
    const turn = (this.looking = {});
    this.element.replaceChildren(skeleton(8));
    const [details, { versions }] = await Promise.all([get("/v1/memory/show", { memory_id: id }), get("/v1/memory/history", { memory_id: id })]);
    if (turn === this.looking) this.element.replaceChildren(...facts(details), ...lengths(details), ...history(versions));
  }
}

function facts(details) {
  const { memory } = details;
  const others = [
    ...details.supersedes.map((id) => ["took the place of ", id]),
    ...(details.superseded_by ? [["was superseded by ", details.superseded_by]] : []),
  ];
  return [
    h("h2", {}, memory.text),
    h(
      "div",
      { class: "facts" },
      h("span", {}, `${memory.type}, ${memory.kind}, ${memory.visibility}`),
      h("span", {}, "from ", details.session_id ? h("a", { href: toSession(details.session_id) }, provenance(memory)) : provenance(memory)),
      h("span", {}, memory.valid_to === null ? "holds since " : "held from ", when(instant(memory.valid_from)), ...(memory.valid_to === null ? [] : [" to ", when(instant(memory.valid_to))])),
      h("span", {}, `shown ${details.retrieval_count} times, used ${details.citation_count}, ignored ${details.ignore_count}`),
    ),
    ...(details.ended_because ? [h("p", { class: "warn" }, `ended: ${details.ended_because}`)] : []),
    ...(details.tags.length ? [h("p", { class: "faint" }, `about ${details.tags.join(", ")}`)] : []),
    ...others.map(([words, id]) => h("p", {}, words, h("a", { href: toMemory(id) }, id))),
  ];
}

function lengths(details) {
  return [h("h3", {}, "At four lengths"), ...LENGTHS.map(([name, label]) => h("details", {}, h("summary", {}, label), h("pre", { class: "then" }, details[name])))];
}

function history(versions) {
  const read = versions.map((version) => ({ ...version, believedFrom: instant(version.believed_from), validFrom: instant(version.valid_from), validTo: instant(version.valid_to) }));
  const rows = read.map((version) => [
    when(version.believedFrom),
    when(version.validFrom),
    version.validTo === null ? "still" : when(version.validTo),
    version.text,
    version.author,
    version.ended_because ?? "",
  ]);
  return [
    h("h3", {}, "History"),
    timePlane(read),
    plainTable(["believed from", "true from", "to", "text", "author", "ended because"], rows, { label: "Versions", empty: "No version." }),
  ];
}
