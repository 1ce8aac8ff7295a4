// One object: its level in the session, its versions, what changed in each, and its text.

import { get, post } from "../data/api.js";
import { number, shortId, when } from "../data/words.js";
import { codeView } from "./code-view.js";
import { diffView } from "./diff-view.js";
import { copyButton, h, skeleton } from "./dom.js";

const VERSIONS_MAX = 1_000;

export class ObjectView {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.element = h("div", { class: "object", "aria-label": "Object" });
    this.#empty();
  }

  /** Show an object under the agent's name for it. */
  async show(objectId, name = objectId) {
    this.picked = objectId === this.objectId ? this.picked : null;
    if (objectId && objectId !== this.objectId) this.element.replaceChildren(skeleton(8));
    if (objectId !== this.objectId) this.drawn = null;
    this.objectId = objectId;
    this.name = name;
    await this.refresh();
  }

  /** Reload the object that is shown. */
  async refresh() {
    if (!this.objectId) return this.#empty();
    const requested = this.objectId;
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const [now, history] = await Promise.all([
        get("/show", { name: requested, session: this.session.ref }, this.asking),
        get("/history", { object_id: requested, limit: VERSIONS_MAX }, this.asking),
      ]);
      if (requested !== this.objectId) return null;
      Object.assign(this, { now, history: history.entries, cut: history.cursor !== null });
      const last = history.entries.length;
      return await this.#at(Math.min(this.picked ?? last, last));
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
      return null;
    }
  }

  /** Apply `activate`, `deactivate`, `pin` or `unpin` to an object, and reload the one that is shown. */
  async change(what, objectId = this.objectId) {
    try {
      await post(`/${what}`, { session: this.session.ref, object_id: objectId });
      await this.refresh();
    } catch (error) {
      this.onFault(error);
    }
  }

  /** A version the user selected stays selected; otherwise the newest is shown. */
  #pick(version) {
    this.picked = version;
    return this.#at(version);
  }

  async #at(version) {
    const requested = this.objectId;
    this.version = version;
    const entry = this.history[version - 1];
    const [seen, difference] = await Promise.all([
      entry.deleted ? null : get("/show", { name: requested, session: this.session.ref, version }, this.asking),
      version > 1 && !entry.deleted && !this.history[version - 2].deleted
        ? get("/diff", { name: requested, session: this.session.ref, from: version - 1, to: version }, this.asking)
        : null,
    ]);
    if (requested !== this.objectId || version !== this.version) return;
    this.#draw(seen, difference);
  }

  #draw(seen, difference) {
    const { now } = this;
    const drawn = JSON.stringify([now, this.history, this.version]);
    if (drawn === this.drawn) return; // unchanged: keep focus and scroll position
    this.drawn = drawn;
    this.element.replaceChildren(
      h("h2", { title: this.objectId }, this.name),
      h(
        "div",
        { class: "facts" },
        h("span", {}, now.kind),
        h("span", { class: "level-word" }, now.level),
        now.pinned ? h("span", {}, "pinned") : null,
        now.state ? h("span", {}, now.state) : null,
        h("span", { class: "faint" }, shortId(this.objectId)),
      ),
      h(
        "div",
        { class: "actions" },
        this.#button("activate", now.level !== "active"),
        this.#button("deactivate", now.level === "active"),
        this.#button("pin", !now.pinned),
        this.#button("unpin", now.pinned),
      ),
      h("h3", {}, `Versions (${this.cut ? "first " : ""}${number(this.history.length)})`),
      this.#versions(),
      ...this.#changes(difference),
      h("h3", {}, `Version ${this.version}`, seen?.content ? copyButton(seen.content) : ""),
      seen ? content(seen, this.name) : h("p", { class: "faint" }, "Deleted: nothing is valid from then on."),
    );
  }

  #button(what, offered) {
    return offered ? h("button", { type: "button", "data-change": what, onclick: () => this.change(what) }, what) : null;
  }

  #versions() {
    const rows = this.history.map((entry, at) =>
      h(
        "button",
        {
          type: "button",
          class: at + 1 === this.version ? "version chosen" : "version",
          "aria-pressed": at + 1 === this.version ? "true" : "false",
          onclick: () => this.#pick(at + 1).catch((error) => error.name !== "AbortError" && this.onFault(error)),
        },
        h("b", {}, String(at + 1)),
        h("span", {}, "valid from ", when(entry.valid_time, { exact: true })),
        h("span", { class: "faint" }, "stored ", when(entry.system_time, { exact: true }), `, transaction ${entry.sequence}`),
      ),
    );
    return h("div", { class: "versions" }, ...rows);
  }

  #changes(difference) {
    if (!difference) return [];
    const fields = difference.fields.map((change) =>
      h("div", { class: "field" }, h("b", {}, change.field), ` ${printed(change.before)} → ${printed(change.after)}`),
    );
    return [
      h("h3", {}, `From version ${difference.before.version} to ${difference.after.version}`),
      ...fields,
      diffView(difference.diff, { same: fields.length ? "The text is unchanged." : "No differences." }),
    ];
  }

  #empty() {
    this.now = null;
    this.drawn = null;
    this.element.replaceChildren(h("p", { class: "faint hint" }, "Select an object to see its versions, what changed, and its text."));
    return null;
  }
}

function content(seen, path) {
  if (seen.content === null) return h("p", { class: "faint" }, seen.state === "stub" ? "Discovered but never read." : "No text.");
  return codeView(seen.content, { path });
}

function printed(value) {
  return value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
}
