// Search everything that a session has seen, also what its prompts no longer show.

import { get } from "../data/api.js";
import { codeView } from "../widgets/code-view.js";
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

  async #search(query) {
    this.query = query;
    this.result.replaceChildren(skeleton(8));
    try {
      const { text } = await get("/recall", { session: this.session.ref, query, limit: OBJECTS_MAX }, this.session.ending);
      if (query === this.query) this.result.replaceChildren(codeView(text));
    } catch (error) {
      this.query = null;
      this.result.replaceChildren(h("p", { class: "bad" }, error.message));
      if (error.name !== "AbortError") this.onFault(error);
    }
  }
}

function submit(event, act) {
  event.preventDefault();
  act();
}
