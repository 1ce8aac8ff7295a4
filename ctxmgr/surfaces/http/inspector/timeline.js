// The turns of a session as stacked bars on a canvas, with a strip below for the cache.
//
//   bars    tokens of each prompt by section, from the system prompt upwards
//   strip   green: from cache; red: sent before and rewritten; grey: new
//
// Space for every turn is reserved from the start; older turns appear in it as they are loaded.

import { SECTIONS, compact, h, number, percent, sectionName, swatch, time } from "./dom.js";
import { cacheOutcome, isBreak } from "./session.js";

const HEIGHT = 190;
const LEFT = 46;
const TOP = 8;
const AXIS = 18;
const STRIP = 12;
const GAP = 4;
const BAR_MAX = 34;
const ZOOM = 1.6;
const TURNS_MIN = 10;
const LABEL = 30;

export class Timeline {
  constructor(session, { onTurn }) {
    this.session = session;
    this.onTurn = onTurn;
    this.turn = 0;
    this.first = 1;
    this.count = 0;
    this.fitted = true;
    this.canvas = h("canvas", {
      class: "timeline",
      tabindex: "0",
      role: "slider",
      "aria-label": "Turns",
      "aria-valuemin": "1",
      onclick: (event) => this.#at(event, (turn) => this.onTurn(turn)),
      onmousemove: (event) => this.#at(event, (turn) => this.#hover(turn, event)),
      onmouseleave: () => this.#hover(0),
      onwheel: (event) => this.#wheel(event),
    });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("div", { class: "legend" });
    this.element = h("section", { class: "timeline-box", "aria-label": "Timeline" }, this.legend, this.canvas, this.tip);
    new ResizeObserver(() => this.draw()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(), { signal: session.ending.signal });
    session.addEventListener("timeline", () => this.#grown());
  }

  choose(turn) {
    this.turn = turn;
    if (turn && (turn < this.first || turn >= this.first + this.count)) {
      this.first = turn - Math.floor(this.count / 2);
      this.#clamp();
    }
    this.draw();
  }

  zoom(by) {
    const { turns } = this.session;
    const middle = this.turn || this.first + this.count / 2;
    const share = (middle - this.first) / (this.count || 1);
    this.count = Math.round(Math.min(turns, Math.max(TURNS_MIN, by ? this.count / by : turns)));
    this.fitted = this.count >= turns;
    this.first = Math.round(middle - share * this.count);
    this.#clamp();
    this.draw();
  }

  /** The turn of the next break after the selected one, or before it; null if there is none. */
  nextBreak(by) {
    for (let turn = this.turn + by; turn >= 1 && turn <= this.session.last; turn += by) {
      const entry = this.session.entry(turn);
      if (entry && isBreak(entry)) return entry.turn;
    }
    return null;
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    this.canvas.style.height = `${HEIGHT}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, HEIGHT);
    this.plot = width - LEFT;
    const visible = this.#visibleEntries();
    if (visible.length) this.#paint(pen, visible, colours(this.canvas));
    this.#describe();
  }

  #grown() {
    const { entries, turns } = this.session;
    if (this.fitted) [this.first, this.count] = [1, turns];
    this.#legend();
    this.draw();
    if (entries.length) this.#note(entries.length);
  }

  /** Record when the turns became visible: at the start of the frame after the one that drew them. */
  #note(drawn) {
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        const now = performance.now();
        if (!this.canvas.dataset.paintedMs) this.canvas.dataset.paintedMs = now;
        Object.assign(this.canvas.dataset, { turns: drawn, turnsMs: now });
      }),
    );
  }

  #visibleEntries() {
    const { entries } = this.session;
    const from = this.first - (entries[0]?.turn ?? 1);
    return entries.slice(Math.max(0, from), Math.max(0, from + this.count));
  }

  #paint(pen, visible, colour) {
    const top = Math.max(1, ...visible.map((entry) => entry.prompt_tokens));
    const high = HEIGHT - TOP - AXIS - STRIP - GAP;
    const step = this.plot / Math.max(this.count, 1);
    const y = (tokens) => TOP + high - (tokens / top) * high;
    this.#grid(pen, { top, y, colour });
    for (const entry of visible) {
      // whole pixels: bars that share a pixel would look striped
      const [left, right] = [Math.round(this.#x(entry.turn)), Math.round(this.#x(entry.turn + 1))];
      const bar = Math.max(1, Math.min(BAR_MAX, right - left - (step > 4 ? 1 : 0)));
      const x = left + Math.max(0, Math.floor((right - left - bar) / 2));
      if (entry.turn === this.turn) this.#mark(pen, left, step, colour);
      let below = 0;
      for (const section of this.session.sections) {
        const tokens = entry.tokens[section] ?? 0;
        if (!tokens) continue;
        pen.fillStyle = colour[section];
        pen.fillRect(x, y(below + tokens), bar, Math.max(y(below) - y(below + tokens), 0.5));
        below += tokens;
      }
      this.#cache(pen, { entry, x, bar, y: TOP + high + GAP, colour });
    }
    this.#numbers(pen, visible, { step, colour });
  }

  #grid(pen, { top, y, colour }) {
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(top * share)) + 0.5;
      pen.strokeStyle = colour.line;
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(LEFT + this.plot, at);
      pen.stroke();
      pen.fillStyle = colour.faint;
      pen.fillText(compact(Math.round(top * share)), LEFT - 6, at);
    }
    pen.fillText("cache", LEFT - 6, HEIGHT - AXIS - STRIP / 2);
  }

  #mark(pen, x, step, colour) {
    pen.fillStyle = colour.chosen;
    pen.fillRect(x - 1, 0, Math.max(step, 3) + 1, HEIGHT - AXIS);
  }

  /** One column of the strip: tokens from cache, rewritten and new, from the bottom up. */
  #cache(pen, { entry, x, bar, y, colour }) {
    const all = entry.prompt_tokens || 1;
    const parts = [
      [colour.hit, entry.cached_tokens],
      [colour.broken, entry.rewritten_tokens],
      [colour.fresh, all - entry.cached_tokens - entry.rewritten_tokens],
    ];
    let bottom = y + STRIP;
    for (const [fill, tokens] of parts) {
      const height = (Math.max(0, tokens) / all) * STRIP;
      pen.fillStyle = fill;
      pen.fillRect(x, bottom - height, bar, height);
      bottom -= height;
    }
  }

  #numbers(pen, visible, { step, colour }) {
    pen.fillStyle = colour.faint;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    const every = niceStep(Math.ceil(48 / step));
    for (const { turn } of visible) {
      if (turn % every === 0 || (turn === 1 && every < 3)) {
        pen.fillText(String(turn), Math.min(this.#x(turn) + step / 2, LEFT + this.plot - LABEL / 2), HEIGHT - 4);
      }
    }
  }

  #legend() {
    const { entries, sections } = this.session;
    const sum = (name) => entries.reduce((all, entry) => all + entry[name], 0);
    const [tokens, cached] = [sum("prompt_tokens"), sum("cached_tokens")];
    const breaks = entries.filter(isBreak).length;
    this.legend.replaceChildren(
      ...sections.map((section) => h("span", {}, swatch(section), sectionName(section))),
      h("span", {}, swatch("hit"), "from cache"),
      h("span", {}, swatch("broken"), "rewritten"),
      h("span", {}, swatch("fresh"), "new"),
      h("span", { class: "sum" }, `${number(tokens)} tokens sent, ${percent(tokens ? cached / tokens : 0)} from cache, ${number(breaks)} ${breaks === 1 ? "break" : "breaks"}`),
    );
  }

  #describe() {
    const entry = this.session.entry(this.turn);
    this.canvas.setAttribute("aria-valuemax", this.session.last || 1);
    this.canvas.setAttribute("aria-valuenow", this.turn || 1);
    this.canvas.setAttribute("aria-valuetext", entry ? `turn ${entry.turn}, ${entry.prompt_tokens} tokens, ${cacheOutcome(entry)}` : "no turn");
  }

  #hover(turn, event = null) {
    const entry = turn ? this.session.entry(turn) : null;
    this.tip.hidden = !entry;
    if (!entry) return;
    this.tip.replaceChildren(
      h("b", {}, `Turn ${entry.turn}`),
      h("span", { class: "faint" }, ` ${time(entry.valid_time)}`),
      ...Object.entries(entry.tokens)
        .filter(([, tokens]) => tokens)
        .map(([section, tokens]) => h("div", {}, swatch(section), `${sectionName(section)} ${number(tokens)}`)),
      h("div", {}, `${number(entry.prompt_tokens)} tokens, ${percent(entry.prompt_tokens ? entry.cached_tokens / entry.prompt_tokens : 0)} from cache`),
      h("div", { class: isBreak(entry) ? "bad" : "faint" }, cacheOutcome(entry)),
    );
    const room = this.element.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(0, Math.min(event.offsetX + 14, room))}px`;
  }

  #at(event, act) {
    const column = (event.offsetX - LEFT) / (this.plot / Math.max(this.count, 1));
    const turn = this.first + Math.floor(column);
    act(column >= 0 && this.session.entry(turn) ? turn : 0);
  }

  #wheel(event) {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.first += Math.sign(event.deltaX) * Math.max(1, Math.round(this.count / 30));
      this.#clamp();
      this.draw();
    } else this.zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM);
  }

  #x(turn) {
    return LEFT + (turn - this.first) * (this.plot / Math.max(this.count, 1));
  }

  #clamp() {
    this.first = Math.max(1, Math.min(this.first, this.session.turns - this.count + 1));
  }
}

/** The style sheet's colours in the current theme. A canvas cannot use CSS variables. */
function colours(near) {
  const probe = h("i", { hidden: true });
  near.parentElement.append(probe);
  const values = COLOURS.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(values);
}

const COLOURS = [...Object.keys(SECTIONS), "hit", "broken", "fresh", "line", "faint", "chosen"];

function niceStep(least) {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((step) => step * size).find((step) => step >= least);
}
