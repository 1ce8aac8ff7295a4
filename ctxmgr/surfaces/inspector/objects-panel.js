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
    this.ids = new Set();
    this.loading = null;
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
    if (objectId !== this.objectId) return; // another was chosen meanwhile
    this.list.mark(this.list.items.findIndex((each) => each.object_id === objectId));
    await this.view.show(objectId, this.objects.find((each) => each.object_id === objectId)?.name);
  }

  /** Tell whether an object may be one of this session's: before the list is read, any may. */
  knows(objectId) {
    return !this.objects.length || this.ids.has(objectId);
  }

  hide() {
    this.shown = false;
  }

  /** Read all pages; asked again meanwhile, once more after that. */
  #load() {
    this.again = this.loading !== null;
    this.loading ??= this.#pages().finally(() => {
      this.loading = null;
      if (this.again && this.shown) this.#load();
    });
    return this.loading;
  }

  async #pages() {
    const found = [];
    let cursor = null;
    try {
      do {
        const page = await get("/objects", { session: this.session.ref, limit: PAGE, cursor }, this.session.ending);
        found.push(...page.objects);
        cursor = page.cursor;
        // a list that is there already stays until all of the new one is read
        if (!cursor || this.objects.length < found.length) this.#adopt(found);
      } while (cursor);
      await this.view.refresh();
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  #adopt(found) {
    this.objects = [...found];
    this.ids = new Set(found.map((each) => each.object_id));
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
