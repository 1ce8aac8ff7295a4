// The turns of a session as stacked bars on a canvas, with a strip below for what is reusable.
//
//   bars    tokens of each prompt by what they show; or its cost; or its time
//   strip   green: the same as the beginning of the prompt before; red: sent again; grey: new
//   dots    turns with a failed tool call; at the top, turns with a comment
//
// Space for every turn is reserved from the start; older turns appear in it as they are loaded.

import { breakTone, cacheOutcome, costOf, isBreak, sums, timesOf } from "../data/session.js";
import { KINDS, compact, duration, kindName, money, number, percent, when } from "../data/words.js";
import { choice, h, swatch } from "./dom.js";

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
const DOT = 3;

/** What the bars measure: parts from the bottom up, each with its colour, and how to print a sum. */
const METRICS = {
  tokens: {
    label: "Tokens",
    parts: (session, entry) => session.kinds.map((kind) => [kind, entry.shown[kind] ?? 0]),
    print: compact,
  },
  cost: { label: "Cost", parts: (_, entry) => [["cost", costOf(entry) ?? 0]], print: money },
  time: {
    label: "Time",
    parts: (session, entry) => {
      const times = timesOf(session, entry);
      return times ? [["model", times.model], ["tool", times.tools]] : [];
    },
    print: duration,
  },
};

export class Timeline {
  constructor(session, { onTurn }) {
    this.session = session;
    this.onTurn = onTurn;
    this.turn = 0;
    this.first = 1;
    this.count = 0;
    this.fitted = true;
    this.metric = "tokens";
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
    this.sum = h("div", { class: "sum" });
    const metrics = choice(Object.entries(METRICS).map(([name, { label }]) => [name, label]), {
      chosen: this.metric,
      label: "What the bars show",
      onChoose: (name) => this.#measure(name),
    });
    this.empty = h("p", { class: "no-figures faint", hidden: true });
    const head = h("div", { class: "timeline-head" }, this.sum, metrics);
    this.element = h("section", { class: "timeline-box is-loading", "aria-label": "Timeline" }, head, this.canvas, this.empty, this.tip, this.legend);
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
    return this.#next(by, isBreak);
  }

  /** The next turn with a failed tool call. */
  nextFailed(by) {
    return this.#next(by, (entry) => entry.failed > 0);
  }

  #next(by, wanted) {
    for (let turn = this.turn + by; turn >= 1 && turn <= this.session.last; turn += by) {
      const entry = this.session.entry(turn);
      if (entry && wanted(entry)) return entry.turn;
    }
    return null;
  }

  #measure(name) {
    this.metric = name;
    this.#legend();
    this.draw();
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
    this.element.classList.remove("is-loading");
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
    const metric = METRICS[this.metric];
    const bars = visible.map((entry) => metric.parts(this.session, entry));
    const top = Math.max(...bars.map((parts) => parts.reduce((all, [, value]) => all + value, 0)));
    this.empty.hidden = top > 0;
    this.empty.textContent = this.metric === "cost" ? "No cost is known: no usage was reported, or the model has no listed price." : "No times were recorded with these turns.";
    const high = HEIGHT - TOP - AXIS - STRIP - GAP;
    const step = this.plot / Math.max(this.count, 1);
    const y = (value) => TOP + high - (value / (top || 1)) * high;
    if (top) this.#grid(pen, { top, y, colour, print: metric.print });
    visible.forEach((entry, at) => {
      // whole pixels: bars that share a pixel would look striped
      const [left, right] = [Math.round(this.#x(entry.turn)), Math.round(this.#x(entry.turn + 1))];
      const bar = Math.max(1, Math.min(BAR_MAX, right - left - (step > 4 ? 1 : 0)));
      const x = left + Math.max(0, Math.floor((right - left - bar) / 2));
      if (entry.turn === this.turn) this.#mark(pen, left, step, colour);
      let below = 0;
      for (const [part, value] of bars[at]) {
        if (!value) continue;
        pen.fillStyle = colour[part];
        pen.fillRect(x, y(below + value), bar, Math.max(y(below) - y(below + value), 0.5));
        below += value;
      }
      if (entry.failed) this.#dot(pen, x + bar / 2, Math.max(DOT, y(below) - 2 * DOT), colour.bad);
      if (entry.comment !== null) this.#dot(pen, x + bar / 2, DOT, colour.accent);
      this.#cache(pen, { entry, x, bar, y: TOP + high + GAP, colour });
    });
    this.#numbers(pen, visible, { step, colour });
  }

  #dot(pen, x, y, colour) {
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, DOT, 0, 2 * Math.PI);
    pen.fill();
  }

  #grid(pen, { top, y, colour, print }) {
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
      pen.fillText(print(top * share), LEFT - 6, at);
    }
    pen.fillText("reuse", LEFT - 6, HEIGHT - AXIS - STRIP / 2);
  }

  #mark(pen, x, step, colour) {
    pen.fillStyle = colour.chosen;
    pen.fillRect(x - 1, 0, Math.max(step, 3) + 1, HEIGHT - AXIS);
  }

  /** One column of the strip: tokens that are reusable, sent again and new, from the bottom up. */
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
    const parts = { tokens: this.session.kinds, cost: ["cost"], time: ["model", "tool"] }[this.metric];
    const estimated = this.session.entries.some((entry) => entry.usd == null && entry.estimated_usd);
    const names = { cost: estimated ? "cost, estimated where no usage was reported" : "cost", model: "until the answer", tool: "tools" };
    const item = (kind, name) => h("span", {}, swatch(kind), name);
    this.legend.replaceChildren(
      ...parts.map((kind) => item(kind, names[kind] ?? kindName(kind))),
      h("span", { class: "gap" }),
      item("hit", "reusable: begins like the prompt before"),
      item("broken", "sent again"),
      item("fresh", "new"),
      ...(this.session.entries.some((entry) => entry.failed) ? [item("failed", "failed tool call")] : []),
      ...(this.session.entries.some((entry) => entry.comment !== null) ? [item("commented", "comment")] : []),
    );
    this.sum.textContent = [...sums(this.session), this.#cost()].filter(Boolean).join(" · ");
  }

  #cost() {
    const costs = this.session.entries.map(costOf).filter((cost) => cost !== null);
    if (!costs.length) return "";
    const estimated = this.session.entries.some((entry) => entry.usd == null && entry.estimated_usd);
    const missing = this.session.entries.length - costs.length;
    return money(costs.reduce((all, cost) => all + cost, 0)) + (estimated ? " estimated" : "") + (missing ? `, ${number(missing)} without a price` : "");
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
    const shown = [
      h("b", {}, `Turn ${entry.turn}`),
      h("span", { class: "faint" }, " ", when(entry.valid_time)),
      ...Object.entries(entry.shown)
        .filter(([, tokens]) => tokens)
        .map(([kind, tokens]) => h("div", {}, swatch(kind), `${kindName(kind)} ${number(tokens)}`)),
      h("div", {}, [`${number(entry.prompt_tokens)} tokens`, `${percent(entry.cached_tokens, entry.prompt_tokens)} reusable`, costOf(entry) === null ? "" : money(costOf(entry))].filter(Boolean).join(", ")),
      entry.failed ? h("div", { class: "bad" }, `${entry.failed} failed`) : null,
      entry.comment === null ? null : h("div", { class: "comment" }, entry.comment),
      h("div", { class: breakTone(entry) }, cacheOutcome(entry)),
    ];
    this.tip.replaceChildren(...shown.filter(Boolean));
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

const COLOURS = [...Object.keys(KINDS), "cost", "model", "tool", "hit", "broken", "fresh", "bad", "accent", "line", "faint", "chosen"];

function niceStep(least) {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((step) => step * size).find((step) => step >= least);
}
