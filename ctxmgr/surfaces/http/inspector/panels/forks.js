// The tree of forks that a session belongs to, and a way to compare it with any other session.

import { address, go, toSession } from "../data/address.js";
import { get } from "../data/api.js";
import { count, number, when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";

const PAGE = 1_000;

export class ForksPanel {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.tree = h("div", { class: "forks-tree" });
    this.names = h("datalist", { id: "all-sessions" });
    this.filter = h("input", { list: "all-sessions", placeholder: "Another session", "aria-label": "Compare with" });
    this.element = h(
      "section",
      { class: "panel forks", "aria-label": "Forks" },
      h("p", { class: "lead" }, "A fork begins as a copy of another session up to a turn, and goes on by itself."),
      this.tree,
      h("form", { class: "filter", onsubmit: (event) => this.#compare(event) }, h("span", {}, "Compare with"), this.filter, this.names, h("button", {}, "Compare")),
    );
  }

  async show() {
    if (!this.tree.firstChild) this.tree.replaceChildren(skeleton(4));
    try {
      const sessions = [];
      let cursor = null;
      do {
        const page = await get("/sessions", { limit: PAGE, cursor }, this.session.ending);
        sessions.push(...page.sessions);
        cursor = page.cursor;
      } while (cursor);
      this.#draw(sessions);
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
      this.tree.replaceChildren(h("p", { class: "bad" }, error.message));
    }
  }

  #draw(sessions) {
    const { id } = this.session;
    const byId = new Map(sessions.map((session) => [session.session_id, session]));
    const children = Map.groupBy ? Map.groupBy(sessions, (session) => session.parent) : new Map();
    const seen = new Set();
    let root = id;
    while (byId.get(root)?.parent && byId.has(byId.get(root).parent) && !seen.has(root)) {
      seen.add(root);
      root = byId.get(root).parent;
    }
    const shown = new Set();
    const rows = [];
    const add = (name, depth) => {
      if (shown.has(name)) return;
      shown.add(name);
      rows.push(this.#row(byId.get(name), depth));
      for (const child of children.get(name) ?? []) add(child.session_id, depth + 1);
    };
    if (byId.has(root)) add(root, 0);
    this.tree.replaceChildren(...rows, ...(rows.length > 1 ? [] : [h("p", { class: "faint" }, "This session has no forks, and is none. ", h("code", {}, `ctxmgr fork ${id} NEW --turn 3`), " makes one.")]));
    this.names.replaceChildren(...sessions.filter((session) => session.session_id !== id).map((session) => h("option", { value: session.session_id })));
  }

  #row(session, depth) {
    const { id } = this.session;
    const row = h(
      "div",
      { class: session.session_id === id ? "fork-row chosen" : "fork-row" },
      h("span", { class: "name" }, depth ? "↳ " : "", h("a", { href: toSession(session.session_id) }, session.session_id)),
      h("span", { class: "faint" }, session.parent ? `from turn ${number(session.parent_turn)}` : ""),
      h("span", { class: "faint" }, count(session.turns, "turn")),
      h("span", { class: "faint" }, when(session.last_activity)),
      session.session_id === id ? h("span", { class: "faint" }, "this session") : h("a", { href: address("compare", id, session.session_id) }, "compare"),
    );
    row.style.paddingLeft = `${1 + 1.4 * depth}rem`;
    return row;
  }

  #compare(event) {
    event.preventDefault();
    if (this.filter.value.trim()) go("compare", this.session.id, this.filter.value.trim());
  }
}
