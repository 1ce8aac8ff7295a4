// A session as of any moment, on both time axes: when it was true, and when it was known.
//
//   believed   what the store said then: what the agent could know
//   true       what is known, at the time asked for, of that moment

import { get } from "./api.js";
import { diffView } from "./diff-view.js";
import { h, isHash, number, time, turnCount } from "./dom.js";

const STEPS = 1_000;
const SETTLE_MS = 120;

export class TimePanel {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.valid = this.#axis("valid", "True at", "when it was so");
    this.known = this.#axis("known", "Known at", "when it was stored");
    this.together = h("input", { type: "checkbox", checked: true, onchange: () => this.#moved("valid") });
    this.found = h("div", { class: "as-of" });
    this.difference = h("div", { class: "object" });
    this.element = h(
      "section",
      { class: "panel time", "aria-label": "As of" },
      h(
        "div",
        { class: "axes" },
        this.valid.element,
        this.known.element,
        h("label", {}, this.together, "both at the same moment: what the agent could know then"),
      ),
      h("div", { class: "columns" }, this.found, this.difference),
    );
  }

  /** Ask as of the end of a turn, or of now. */
  show(turn) {
    this.#range();
    const at = this.session.entry(turn)?.valid_time ?? this.to;
    if (this.asked === undefined) return this.#set(at, at);
    this.#place(this.valid, this.valid.instant);
    return this.#place(this.known, this.known.instant);
  }

  /** Go to the end of a turn, on both axes or on the one that was moved last. */
  goTo(turn) {
    const at = this.session.entry(turn)?.valid_time;
    if (at === undefined || at === null) return;
    this.#range();
    this.#set(at, this.together.checked ? at : this.known.instant);
  }

  #axis(name, label, title) {
    const slider = h("input", { type: "range", min: "0", max: STEPS, step: "1", id: `axis-${name}`, "aria-label": label, oninput: () => this.#slid(name) });
    const shown = h("output", { for: `axis-${name}` });
    const turns = h("span", { class: "faint" });
    const axis = { slider, shown, turns, instant: null };
    axis.element = h("div", { class: "axis", title }, h("label", { for: `axis-${name}` }, label), slider, shown, turns);
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
    else this.#set(this.valid.instant, this.known.instant);
  }

  #set(valid, known) {
    this.#place(this.valid, valid);
    this.#place(this.known, known);
    this.asked = `${valid} ${known}`;
    this.difference.replaceChildren();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.#load(valid, known), SETTLE_MS);
  }

  #place(axis, instant) {
    axis.instant = instant;
    axis.slider.value = String(Math.round(((instant - this.from) / (this.to - this.from)) * STEPS));
    axis.shown.textContent = time(instant, { exact: true });
    const before = this.session.entries.findLast((each) => each.valid_time !== null && each.valid_time <= instant);
    axis.turns.textContent = before ? `after turn ${before.turn}` : "before the first turn";
  }

  async #load(valid, known) {
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const found = await get("/as-of", { name: this.session.ref, valid_time: valid, system_time: known }, this.asking);
      if (found.differing) this.#draw(found);
      else this.found.replaceChildren(h("p", { class: "faint" }, "There was no such session then, as far as was known."));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code !== "not_found") return this.onFault(error);
      this.found.replaceChildren(h("p", { class: "faint" }, "There was no such session then."));
    }
  }

  #draw(found) {
    const counts = ["active", "metadata", "indexed", "pinned"];
    const wrong = new Set(found.differing.map((each) => each.object_id));
    const shown = found.objects.map((each) => ({ ...each, differs: wrong.has(each.object_id) }));
    const besides = found.differing.filter((each) => !shown.some((other) => other.object_id === each.object_id));
    this.found.replaceChildren(
      h("div", { class: "facts" }, h("span", {}, turnCount(found.turns)), ...counts.map((each) => h("span", {}, h("b", {}, number(found[each])), ` ${each}`))),
      h("h3", {}, found.active > shown.length ? `Shown in full or pinned then (the first ${number(shown.length)})` : "Shown in full or pinned then"),
      this.#table(shown),
      h("h3", {}, `Not as it was believed (${number(found.differing.length)} of ${number(found.compared)} compared)`),
      besides.length || wrong.size ? this.#table([...shown.filter((each) => each.differs), ...besides.map((each) => ({ ...each, differs: true }))]) : h("p", { class: "faint" }, "All was as it was believed."),
    );
  }

  #table(objects) {
    if (!objects.length) return h("p", { class: "faint" }, "nothing");
    return h(
      "div",
      { class: "as-of-rows" },
      ...objects.map((each) =>
        h(
          "button",
          { type: "button", class: "as-of-row", onclick: () => this.#compare(each) },
          h("span", { class: "name", title: each.object_id }, each.name),
          h("span", { class: "faint" }, isHash(each.object_id) ? "" : each.object_id),
          h("span", { class: each.differs ? "bad" : "good" }, each.differs ? "was otherwise" : "as believed"),
        ),
      ),
    );
  }

  async #compare({ object_id: objectId, name }) {
    const [valid, known] = [this.valid.instant, this.known.instant];
    const asked = (this.comparing = `${objectId} ${valid} ${known}`);
    try {
      const found = await get("/as-of", { name: objectId, session: this.session.ref, valid_time: valid, system_time: known }, this.session.ending);
      if (asked !== this.comparing || this.asked !== `${valid} ${known}`) return;
      this.difference.replaceChildren(
        h("h2", { title: objectId }, name),
        h("div", { class: "facts" }, seen("believed", found.believed), seen("true", found.true)),
        h("h3", {}, "From what was believed to what was true"),
        diffView(found.diff, { same: "What was believed was true." }),
        h("h3", {}, "What was believed"),
        found.content === null ? h("p", { class: "faint" }, "no text") : h("pre", { class: "content" }, found.content),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.onFault(error);
    }
  }
}

function seen(word, found) {
  return h("span", {}, h("b", {}, word), found ? ` since ${time(found.valid_time, { exact: true })}, ${number(found.char_count)} characters` : " not there");
}
