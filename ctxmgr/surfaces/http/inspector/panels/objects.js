// The objects a session has seen, by level: a list of any length, and the selected object beside it.

import { get } from "../data/api.js";
import { compact, number, shortId } from "../data/words.js";
import { h } from "../widgets/dom.js";
import { ObjectView } from "../widgets/object-view.js";
import { VirtualList } from "../widgets/virtual-list.js";

const ROW_HEIGHT = 28;
const PAGE = 1_000;
const CHOICES = { all: "all levels", active: "active", metadata: "metadata", indexed: "indexed", pinned: "pinned" };

export class ObjectsPanel {
  constructor(session, { onObject, onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.objects = [];
    this.ids = new Set();
    this.loading = null;
    this.list = new VirtualList({
      rowHeight: ROW_HEIGHT,
      draw: (object) => row(object),
      onChoose: (object) => onObject(object.object_id, { open: true }),
      label: "Objects",
    });
    this.filter = h("input", { type: "search", placeholder: "Filter objects", "aria-label": "Filter objects", oninput: () => this.#listed() });
    this.level = h(
      "select",
      { "aria-label": "Level", onchange: () => this.#listed() },
      ...Object.entries(CHOICES).map(([name, label]) => h("option", { value: name }, label)),
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
    session.addEventListener("objects", () => this.visible && this.#load());
  }

  /** Show the list, with the selected object beside it, if any. */
  show(objectId) {
    this.#show(objectId || null).catch(this.onFault);
  }

  key(name) {
    if (name === "a") this.#toggleActive();
    else if (name === "p") this.#togglePinned();
    else return false;
    return true;
  }

  async #show(objectId) {
    this.visible = true;
    this.objectId = objectId;
    if (!this.objects.length) await this.#load();
    if (objectId !== this.objectId) return; // another object was selected meanwhile
    this.list.mark(this.list.items.findIndex((object) => object.object_id === objectId));
    await this.view.show(objectId, this.objects.find((object) => object.object_id === objectId)?.name);
  }

  /** Return whether an object may belong to this session; true until the list has been read. */
  knows(objectId) {
    return !this.objects.length || this.ids.has(objectId);
  }

  hide() {
    this.visible = false;
  }

  /** Activate the selected object, or deactivate it. */
  #toggleActive() {
    return this.#toggle((object) => (object.level === "active" ? "deactivate" : "activate"));
  }

  #togglePinned() {
    return this.#toggle((object) => (object.pinned ? "unpin" : "pin"));
  }

  // The row decides, not the view beside it: a key may follow before the view has loaded the object,
  // and would then be lost, or meet the object that was selected before.
  #toggle(action) {
    const object = this.list.item ?? this.view.now;
    return object && this.view.change(action(object), object.object_id);
  }

  /** Read all pages; a call during a load causes one more. */
  #load() {
    this.again = this.loading !== null;
    this.loading ??= this.#pages().finally(() => {
      this.loading = null;
      if (this.again && this.visible) this.#load();
    });
    return this.loading;
  }

  async #pages() {
    const loaded = [];
    let cursor = null;
    try {
      do {
        const page = await get("/objects", { session: this.session.ref, limit: PAGE, cursor }, this.session.ending);
        loaded.push(...page.objects);
        cursor = page.cursor;
        // an existing list stays until the new one has been read completely
        if (!cursor || this.objects.length < loaded.length) this.#adopt(loaded);
      } while (cursor);
      await this.view.refresh();
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }

  #adopt(loaded) {
    this.objects = [...loaded];
    this.ids = new Set(loaded.map((object) => object.object_id));
    this.#listed();
  }

  #listed() {
    const wanted = this.filter.value.toLowerCase();
    const level = this.level.value;
    const matching = this.objects.filter(
      (object) =>
        (this.level.selectedIndex === 0 || (level === "pinned" ? object.pinned : object.level === level)) &&
        (!wanted || `${object.name} ${object.object_id} ${object.state} ${object.kind}`.toLowerCase().includes(wanted)),
    );
    this.count.textContent = `${number(matching.length)} of ${number(this.objects.length)}`;
    this.list.show(matching, { key: (object) => object.object_id });
    this.#mark();
  }

  #mark() {
    const at = this.list.items.findIndex((object) => object.object_id === this.objectId);
    if (at !== this.list.chosen) this.list.mark(at);
  }
}

function row(object) {
  return [
    h("span", { class: `level ${object.level}`, title: LEVELS[object.level] }, GLYPHS[object.level] ?? ""),
    h("span", { class: "pin", title: object.pinned ? "pinned" : "" }, object.pinned ? "●" : ""),
    h("span", { class: "name", title: object.object_id }, object.name, h("span", { class: "faint" }, object.kind === "toolcall" ? ` ${shortId(object.object_id)}` : "")),
    h("span", { class: `state ${object.state}` }, object.state === "live" || object.state === "ok" ? "" : object.state),
    h("span", { class: "figure", title: `${number(object.char_count)} characters` }, compact(object.char_count)),
  ];
}

const GLYPHS = { active: "▣", metadata: "▤", indexed: "▢" };
const LEVELS = { active: "active: in full in a plain prompt", metadata: "metadata: one line in a plain prompt", indexed: "indexed: known, and not shown" };
