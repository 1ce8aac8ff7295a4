// What a session has met, by level: a list of any length, and the chosen object beside it.

import { get } from "./api.js";
import { compact, h, number, shortId } from "./dom.js";
import { ObjectView } from "./object-view.js";
import { VirtualList } from "./virtual-list.js";

const ROW_HEIGHT = 28;
const PAGE = 1_000;

export class ObjectsPanel {
  constructor(session, { onObject, onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.objects = [];
    this.list = new VirtualList({
      rowHeight: ROW_HEIGHT,
      draw: (each) => row(each),
      onChoose: (each) => onObject(each.object_id),
      label: "Objects",
    });
    this.filter = h("input", { type: "search", placeholder: "Filter objects", "aria-label": "Filter objects", oninput: () => this.#listed() });
    this.level = h(
      "select",
      { "aria-label": "Level", onchange: () => this.#listed() },
      ...["every level", "active", "metadata", "indexed", "pinned"].map((each) => h("option", { value: each }, each)),
    );
    this.count = h("span", { class: "faint" });
    this.view = new ObjectView(session, { onFault });
    this.element = h(
      "section",
      { class: "panel objects", "aria-label": "Objects" },
      h(
        "div",
        { class: "columns" },
        h("div", { class: "pieces" }, h("div", { class: "filter" }, this.filter, this.level, this.count), this.list.element),
        this.view.element,
      ),
    );
    session.addEventListener("objects", () => this.shown && this.#load());
  }

  /** Show the list, with an object beside it if one is chosen. */
  async show(objectId) {
    this.shown = true;
    this.objectId = objectId;
    if (!this.objects.length) await this.#load();
    this.#mark();
    await this.view.show(objectId, this.objects.find((each) => each.object_id === objectId)?.name);
  }

  hide() {
    this.shown = false;
  }

  async #load() {
    this.asking?.abort();
    this.asking = new AbortController();
    const found = [];
    let cursor = null;
    try {
      do {
        const page = await get("/objects", { session: this.session.id, limit: PAGE, cursor }, this.asking);
        found.push(...page.objects);
        cursor = page.cursor;
        // the first page is shown at once; of a list that is there already, nothing before all is read
        if (!this.objects.length || this.objects.length < found.length || !cursor) this.#adopt(found);
      } while (cursor);
      await this.view.refresh();
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  #adopt(found) {
    this.objects = [...found];
    this.#listed();
  }

  #listed() {
    const wanted = this.filter.value.toLowerCase();
    const level = this.level.value;
    const shown = this.objects.filter(
      (each) =>
        (this.level.selectedIndex === 0 || (level === "pinned" ? each.pinned : each.level === level)) &&
        (!wanted || `${each.name} ${each.object_id} ${each.state} ${each.kind}`.toLowerCase().includes(wanted)),
    );
    this.count.textContent = `${number(shown.length)} of ${number(this.objects.length)}`;
    this.list.show(shown, { key: (each) => each.object_id });
    this.#mark();
  }

  #mark() {
    const at = this.list.items.findIndex((each) => each.object_id === this.objectId);
    if (at !== this.list.chosen) this.list.mark(at);
  }
}

function row(each) {
  return [
    h("span", { class: `level ${each.level}`, title: LEVELS[each.level] }, GLYPHS[each.level] ?? ""),
    h("span", { class: "pin", title: each.pinned ? "pinned" : "" }, each.pinned ? "●" : ""),
    h("span", { class: "name", title: each.object_id }, each.name, h("span", { class: "faint" }, each.kind === "toolcall" ? ` ${shortId(each.object_id)}` : "")),
    h("span", { class: `state ${each.state}` }, each.state === "live" || each.state === "ok" ? "" : each.state),
    h("span", { class: "figure", title: `${number(each.char_count)} characters` }, compact(each.char_count)),
  ];
}

const GLYPHS = { active: "▣", metadata: "▤", indexed: "▢" };
const LEVELS = { active: "in full", metadata: "one line", indexed: "not shown" };
