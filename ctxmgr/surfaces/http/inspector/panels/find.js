// Search everything that a session has seen, also what its prompts no longer show.

import { get } from "../data/api.js";
import { toSession } from "../data/address.js";
import { count, number } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";

const OBJECTS_MAX = 20;

export class FindPanel {
  constructor(session, { onFault, onFind }) {
    this.session = session;
    this.onFault = onFault;
    this.filter = h("input", { type: "search", placeholder: "Words to search for", "aria-label": "Search this session" });
    this.result = h("div", { class: "found" });
    this.element = h(
      "section",
      { class: "panel find", "aria-label": "Search" },
      h("p", { class: "lead" }, "Searches every file and tool output that this session has seen, including what its prompts no longer show."),
      h("form", { class: "filter", onsubmit: (event) => submit(event, () => onFind(this.filter.value.trim())) }, this.filter, h("button", {}, "Search")),
      this.result,
    );
  }

  show(query) {
    if (document.activeElement !== this.filter) this.filter.value = query;
    if (query && query !== this.query) this.#search(query);
    if (!query) this.filter.focus();
  }

  #show(hits, query) {
    const words = query.split(/\s+/).filter(Boolean);
    this.result.replaceChildren(
      h("p", { class: "faint" }, hits.length ? `${count(hits.length, "object")}, the best first` : "Nothing that this session has seen matches these words."),
      ...hits.map((hit) => hitCard(this.session, hit, words)),
    );
  }

  async #search(query) {
    this.query = query;
    this.result.replaceChildren(skeleton(8));
    try {
      const { hits } = await get("/recall", { session: this.session.ref, query, limit: OBJECTS_MAX }, this.session.ending);
      if (query === this.query) this.#show(hits, query);
    } catch (error) {
      this.query = null;
      this.result.replaceChildren(h("p", { class: "bad" }, error.message));
      if (error.name !== "AbortError") this.onFault(error);
    }
  }
}

/** One object that was found: what it is, how large, and the lines with most of the words. */
function hitCard(session, hit, words) {
  return h(
    "article",
    { class: "card hit", "data-object": hit.object_id },
    h(
      "header",
      {},
      h("span", { class: "faint" }, hit.kind === "file" ? "file" : "output of"),
      h("a", { class: "name", href: toSession(session.id, "objects", hit.object_id), title: hit.object_id }, hit.name),
      h("span", { class: "faint figure" }, count(hit.char_count, "character")),
    ),
    h("ol", { class: "hit-lines" }, ...hit.lines.map(({ line, text }) => h("li", {}, h("span", { class: "faint figure" }, number(line)), h("code", {}, ...marked(text, words))))),
  );
}

/** A text as nodes, with the words marked that were searched for. */
function marked(text, words) {
  if (!words.length) return [text];
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}

function submit(event, act) {
  event.preventDefault();
  act();
}
