// How faithfully a session is kept, and what that takes: windows by fidelity, storage by level.

import { compact, count, number, percent } from "../data/words.js";
import { h, skeleton, swatch } from "../widgets/dom.js";

const LISTED = 50;

/** Fidelity → what it means. */
const FIDELITIES = {
  hot: "in the context",
  warm: "kept token by token",
  submitted: "kept for a submission",
  cold: "compressed",
};

export class WindowsPanel {
  /** @param onTick called with a tick that was clicked on */
  constructor({ onTick }) {
    this.onTick = onTick;
    this.result = h("div", {}, skeleton(4));
    this.element = h("section", { class: "windows", "aria-label": "Windows" }, h("h3", {}, "Windows by fidelity"), this.result);
  }

  async load(experience) {
    await shown(this.result, async () => {
      this.answer = await experience.windows();
      this.#draw();
    });
  }

  /** Mark the ticks in sight on the strip of all ticks. */
  follow(view, last) {
    Object.assign(this, { view, last });
    this.#draw();
  }

  #draw() {
    if (!this.answer || !this.last) return;
    const { windows, fidelities } = this.answer;
    const covered = windows.reduce((ticks, window) => ticks + window.end_tick - window.start_tick + 1, 0);
    const all = fidelities.reduce((number, { windows: some }) => number + some, 0);
    const rows = fidelities.map(({ fidelity, windows: some, tokens }) => [fidelity, `${count(some, "window")}, ${compact(tokens)} tokens`]);
    const hot = all > windows.length ? [] : [["hot", count(Math.max(0, this.last - covered), "tick")]];
    this.result.replaceChildren(
      this.#strip(windows),
      ...[...hot, ...rows].map(([fidelity, text]) => h("div", { class: "fidelity-row" }, h("span", {}, swatch(`fidelity ${known(fidelity)}`), fidelity), h("span", { class: "faint" }, FIDELITIES[fidelity] ?? ""), h("span", { class: "figure" }, text))),
      ...(windows.length ? [this.#list(windows, all)] : [h("p", { class: "faint" }, "No window yet: nothing was retained or compressed.")]),
    );
  }

  /** All ticks of the session in one line; a click goes there. */
  #strip(windows) {
    const place = (part, first, last) => {
      part.style.left = `${(100 * (first - 1)) / this.last}%`;
      part.style.width = `${(100 * (Math.min(last, this.last) - first + 1)) / this.last}%`;
      return part;
    };
    const strip = h(
      "div",
      { class: "fidelity-strip", title: "All ticks; click to go there", onclick: (event) => this.onTick(1 + Math.floor(((event.clientX - strip.getBoundingClientRect().left) * this.last) / strip.clientWidth)) },
      ...windows.map((window) => place(h("i", { class: `fidelity ${known(window.fidelity)}` }), window.start_tick, window.end_tick)),
      place(h("i", { class: "in-sight" }), this.view[0], this.view[1]),
    );
    return strip;
  }

  #list(windows, all) {
    const last = windows.slice(-LISTED).reverse();
    const left = all - last.length;
    return h(
      "details",
      {},
      h("summary", {}, left > 0 ? `The last ${count(last.length, "window")}` : count(last.length, "window")),
      ...last.map((window) => h("div", { class: "fidelity-row" }, h("span", { class: "figure" }, `${number(window.start_tick)}–${number(window.end_tick)}`), h("span", {}, [window.fidelity, window.level.toLowerCase(), window.pinned ? "retained" : "", window.reason ?? ""].filter(Boolean).join(", ")), h("span", { class: "figure faint" }, `${compact(window.tokens)} tokens`))),
    );
  }
}

export class StoragePanel {
  constructor() {
    this.result = h("div", {}, skeleton(3));
    this.element = h("section", { class: "storage", "aria-label": "Storage" }, h("h3", {}, "Storage by level, of all sessions"), this.result);
  }

  async load(experience) {
    await shown(this.result, async () => this.#draw(await experience.storage()));
  }

  #draw({ steps, tail_steps: tail, segments, segment_bytes: bytes, levels, limit }) {
    const sum = levels.reduce((all, level) => all + level.bytes, 0);
    const rows = [["token", bytes], ...levels.map((level) => [level.level.toLowerCase(), level.bytes])];
    const largest = Math.max(1, ...rows.map(([, size]) => size));
    this.result.replaceChildren(
      ...rows.map(([level, size]) => {
        const bar = h("i", { class: "bar output" });
        bar.style.width = `${(100 * size) / largest}%`;
        return h("div", { class: "size" }, h("span", { class: "name" }, level), h("span", { class: "gauge" }, bar), h("span", { class: "figure" }, `${compact(size)}B`));
      }),
      h("p", { class: "faint" }, `${count(steps, "step")} in ${count(segments, "segment")}, ${number(tail)} of them not in a segment yet. Compressed records take ${percent(sum, limit)} of their limit of ${compact(limit)}B.`),
    );
  }
}

const known = (fidelity) => (fidelity in FIDELITIES ? fidelity : "hot");

/** Draw into an element; say there what went wrong. */
async function shown(place, draw) {
  try {
    await draw();
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(h("p", { class: "faint" }, error.message));
  }
}
