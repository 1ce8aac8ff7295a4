// A session as of any moment, on both time axes: valid time and system time.
//
//   believed   what the store contained at that system time: what the agent could know
//   true       what is known today about that valid time

import { get } from "./api.js";
import { diffView } from "./diff-view.js";
import { h, isHash, number, time, turnCount } from "./dom.js";

const STEPS = 1_000;
const SETTLE_MS = 120;

export class TimePanel {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.valid = this.#axis("valid", "Valid time", "when it was true");
    this.system = this.#axis("system", "System time", "when it was stored");
    this.together = h("input", { type: "checkbox", checked: true, onchange: () => this.#moved("valid") });
    this.result = h("div", { class: "as-of" });
    this.difference = h("div", { class: "object" });
    this.element = h(
      "section",
      { class: "panel time", "aria-label": "As of" },
      h(
        "div",
        { class: "axes" },
        this.valid.element,
        this.system.element,
        h("label", {}, this.together, "same moment on both axes: what the agent could know then"),
      ),
      h("div", { class: "columns" }, this.result, this.difference),
    );
  }

  /** Show the session as of the end of a turn, or as of now. */
  show(turn) {
    this.#range();
    const at = this.session.entry(turn)?.valid_time ?? this.to;
    if (this.requested === undefined) return this.#set(at, at);
    this.#moveAxis(this.valid, this.valid.instant);
    return this.#moveAxis(this.system, this.system.instant);
  }

  /** Go to the end of a turn on the valid time axis, and on the other if they move together. */
  goTo(turn) {
    const at = this.session.entry(turn)?.valid_time;
    if (at === undefined || at === null) return;
    this.#range();
    this.#set(at, this.together.checked ? at : this.system.instant);
  }

  #axis(name, label, title) {
    const slider = h("input", { type: "range", min: "0", max: STEPS, step: "1", id: `axis-${name}`, "aria-label": label, oninput: () => this.#slid(name) });
    const output = h("output", { for: `axis-${name}` });
    const turns = h("span", { class: "faint" });
    const axis = { slider, output, turns, instant: null };
    axis.element = h("div", { class: "axis", title }, h("label", { for: `axis-${name}` }, label), slider, output, turns);
    return axis;
  }

  #range() {
    const { overview, entries } = this.session;
    this.from = overview?.started ?? entries[0]?.valid_time ?? Date.now();
    this.to = Math.max(overview?.last_activity ?? this.from, entries.at(-1)?.valid_time ?? this.from, this.from + 1);
  }

  #slid(name) {
    const axis = this[name];
    axis.instant = Math.round(this.from + ((this.to - this.from) * axis.slider.value) / STEPS);
    this.#moved(name);
  }

  #moved(name) {
    const lead = this[name].instant;
    if (this.together.checked) this.#set(lead, lead);
    else this.#set(this.valid.instant, this.system.instant);
  }

  #set(valid, known) {
    this.#moveAxis(this.valid, valid);
    this.#moveAxis(this.system, known);
    this.requested = `${valid} ${known}`;
    this.difference.replaceChildren();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.#load(valid, known), SETTLE_MS);
  }

  #moveAxis(axis, instant) {
    axis.instant = instant;
    axis.slider.value = String(Math.round(((instant - this.from) / (this.to - this.from)) * STEPS));
    axis.output.textContent = time(instant, { exact: true });
    const before = this.session.entries.findLast((entry) => entry.valid_time !== null && entry.valid_time <= instant);
    axis.turns.textContent = before ? `after turn ${before.turn}` : "before the first turn";
  }

  async #load(valid, known) {
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const view = await get("/as-of", { name: this.session.ref, valid_time: valid, system_time: known }, this.asking);
      if (view.differing) this.#draw(view);
      else this.result.replaceChildren(h("p", { class: "faint" }, "At this system time, no such session was known for this valid time."));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code !== "not_found") return this.onFault(error);
      this.result.replaceChildren(h("p", { class: "faint" }, "The session did not exist at this moment."));
    }
  }

  #draw(view) {
    const counts = ["active", "metadata", "indexed", "pinned"];
    const wrong = new Set(view.differing.map((object) => object.object_id));
    const listed = view.objects.map((object) => ({ ...object, differs: wrong.has(object.object_id) }));
    const unlisted = view.differing.filter((object) => !listed.some((other) => other.object_id === object.object_id));
    this.result.replaceChildren(
      h("div", { class: "facts" }, h("span", {}, turnCount(view.turns)), ...counts.map((name) => h("span", {}, h("b", {}, number(view[name])), ` ${name}`))),
      h("h3", {}, view.active > listed.length ? `Active or pinned at this moment (first ${number(listed.length)})` : "Active or pinned at this moment"),
      this.#table(listed),
      h("h3", {}, `Different from what was believed (${number(view.differing.length)} of ${number(view.compared)} compared)`),
      unlisted.length || wrong.size ? this.#table([...listed.filter((object) => object.differs), ...unlisted.map((object) => ({ ...object, differs: true }))]) : h("p", { class: "faint" }, "Everything was as believed."),
    );
  }

  #table(objects) {
    if (!objects.length) return h("p", { class: "faint" }, "None.");
    return h(
      "div",
      { class: "as-of-rows" },
      ...objects.map((object) =>
        h(
          "button",
          { type: "button", class: "as-of-row", onclick: () => this.#compare(object) },
          h("span", { class: "name", title: object.object_id }, object.name),
          h("span", { class: "faint" }, isHash(object.object_id) ? "" : object.object_id),
          h("span", { class: object.differs ? "bad" : "good" }, object.differs ? "differs" : "as believed"),
        ),
      ),
    );
  }

  async #compare({ object_id: objectId, name }) {
    const [valid, known] = [this.valid.instant, this.system.instant];
    const comparison = (this.comparing = `${objectId} ${valid} ${known}`);
    try {
      const view = await get("/as-of", { name: objectId, session: this.session.ref, valid_time: valid, system_time: known }, this.session.ending);
      if (comparison !== this.comparing || this.requested !== `${valid} ${known}`) return;
      this.difference.replaceChildren(
        h("h2", { title: objectId }, name),
        h("div", { class: "facts" }, summary("believed", view.believed), summary("true", view.true)),
        h("h3", {}, "Difference between believed and true"),
        diffView(view.diff, { same: "No differences: what was believed was true." }),
        h("h3", {}, "Believed text"),
        view.content === null ? h("p", { class: "faint" }, "No text.") : h("pre", { class: "content" }, view.content),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }
}

function summary(word, view) {
  return h("span", {}, h("b", {}, word), view ? ` since ${time(view.valid_time, { exact: true })}, ${number(view.char_count)} characters` : " absent");
}
