// All tool calls of a session, with filters: by text, by tool, failed ones only.

import { get } from "../data/api.js";
import { count, number } from "../data/words.js";
import { callCard } from "../widgets/call-card.js";
import { h, skeleton } from "../widgets/dom.js";
import { VirtualList } from "../widgets/virtual-list.js";

const ROW_HEIGHT = 28;
const PAGE = 1_000;

export class CallsPanel {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.calls = [];
    this.list = new VirtualList({ rowHeight: ROW_HEIGHT, draw: row, onChoose: (call) => this.#open(call), label: "Tool calls" });
    this.filter = h("input", { type: "search", placeholder: "Filter tool calls", "aria-label": "Filter tool calls", oninput: () => this.#listed() });
    this.failed = h("input", { type: "checkbox", onchange: () => this.#listed() });
    this.tool = h("select", { "aria-label": "Tool", onchange: () => this.#listed() }, h("option", { value: "" }, "all tools"));
    this.count = h("span", { class: "faint" });
    this.card = h("div", { class: "object", "aria-label": "Tool call" }, h("p", { class: "faint" }, "Select a tool call to see its arguments and output."));
    this.element = h(
      "section",
      { class: "panel calls", "aria-label": "Tool calls" },
      h(
        "div",
        { class: "columns" },
        h("div", { class: "pieces" }, h("div", { class: "filter" }, this.filter, this.tool, h("label", {}, this.failed, "failed only"), this.count), this.list.element),
        this.card,
      ),
    );
    session.addEventListener("objects", () => this.visible && this.#load());
  }

  show() {
    this.visible = true;
    if (!this.loaded) this.#load();
  }

  hide() {
    this.visible = false;
  }

  async #load() {
    if (!this.calls.length) this.card.replaceChildren(skeleton(6));
    this.loaded = true;
    try {
      const loaded = [];
      let before = null;
      do {
        const page = await get("/calls", { session: this.session.ref, limit: PAGE, before }, this.session.ending);
        loaded.unshift(...page.calls);
        before = page.earlier;
      } while (before !== null);
      this.calls = loaded;
      this.#tools();
      this.#listed();
      if (!this.card.querySelector(".card")) this.card.replaceChildren(h("p", { class: "faint" }, loaded.length ? "Select a tool call to see its arguments and output." : "No tool has been called in this session."));
    } catch (error) {
      this.loaded = false;
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  #tools() {
    const chosen = this.tool.value;
    const tools = [...new Set(this.calls.map((call) => call.tool))].sort();
    this.tool.replaceChildren(h("option", { value: "" }, "all tools"), ...tools.map((tool) => h("option", { value: tool }, tool)));
    this.tool.value = tools.includes(chosen) ? chosen : "";
  }

  #listed() {
    const wanted = this.filter.value.toLowerCase();
    const matching = this.calls.filter(
      (call) =>
        (!this.failed.checked || call.status !== "ok") &&
        (!this.tool.value || call.tool === this.tool.value) &&
        (!wanted || `${call.tool} ${call.argument} ${call.object_id}`.toLowerCase().includes(wanted)),
    );
    this.count.textContent = `${number(matching.length)} of ${number(this.calls.length)}`;
    this.count.title = count(this.calls.filter((call) => call.status !== "ok").length, "failed call");
    this.list.show(matching, { key: (call) => call.object_id });
  }

  #open(call) {
    this.card.replaceChildren(callCard(this.session, call, { open: true, withTurn: true, onFault: this.onFault }));
  }
}

function row(call) {
  return [
    h("span", { class: `status ${call.status}` }, call.status === "ok" ? "✓" : "✗"),
    h("span", { class: "name", title: `${call.tool} ${call.argument}` }, h("b", {}, call.tool), ` ${call.argument}`),
    h("span", { class: "faint figure" }, `turn ${number(call.turn)}`),
  ];
}
