// The ticks of a session on a canvas, of which a range can be brushed.
//
//   curves   the score of some concepts at each tick, 0 to 1; no score counts as 0
//   marks    ticks with a tag (filled) or a comment (outlined)
//   events   what each tick was part of, by colour
//
// Drag to select; or focus it, and use the arrow keys, with Shift to extend the selection.

import { EVENTS } from "../data/experience.js";
import { number } from "../data/words.js";
import { h, swatch } from "./dom.js";

const HEIGHT = 210;
const LEFT = 34;
const TOP = 8;
const CURVES = 140;
const MARKS = 14;
const STRIP = 14;
const GAP = 5;
const AXIS = 18;

/** Colours of the curves, by their position. */
export const CURVE_COLOURS = ["assistant", "file", "user", "summary", "listed"];

/** Event type → its colour in the style sheet. */
export const EVENT_COLOURS = { input: "user", output: "assistant", tool_call: "tool", tool_response: "folded", steering: "notice", system: "system" };

export class TickChart {
  /** @param onBrush called with the selected range when a selection ends */
  constructor({ onBrush }) {
    this.onBrush = onBrush;
    this.view = [1, 1];
    this.steps = [];
    this.width = 1; // ticks of a step
    this.marks = { tags: [], comments: [] };
    this.concepts = [];
    this.brush = null;
    this.canvas = h("canvas", {
      class: "timeline ticks",
      tabindex: "0",
      role: "slider",
      "aria-label": "Ticks",
      onpointerdown: (event) => this.#down(event),
      onpointermove: (event) => this.#move(event),
      onpointerup: () => this.#up(),
      onpointercancel: () => this.#up(),
      onkeydown: (event) => this.#key(event),
    });
    this.legend = h("div", { class: "legend" });
    this.element = h("section", { class: "tick-chart", "aria-label": "Events, tokens and concepts" }, this.canvas, this.legend);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.element);
  }

  show({ view, steps, marks, concepts, width = 1 }) {
    Object.assign(this, { view, steps, marks, concepts, width });
    const kinds = Object.keys(EVENTS).filter((kind) => steps.some((step) => step.event_type === kind));
    this.legend.replaceChildren(
      ...concepts.map((concept, at) => h("span", { title: concept }, swatch(CURVE_COLOURS[at]), shortConcept(concept))),
      h("span", { class: "gap" }),
      ...kinds.map((kind) => h("span", {}, swatch(EVENT_COLOURS[kind]), EVENTS[kind])),
    );
    this.draw();
  }

  /** Select a range without calling onBrush. */
  select(range) {
    this.brush = range;
    this.draw();
  }

  close() {
    this.resized.disconnect();
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    this.canvas.style.height = `${HEIGHT}px`;
    this.plot = Math.max(1, width - LEFT - 2);
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    this.#paint(pen, colours(this.element));
    this.#describe();
  }

  #paint(pen, colour) {
    const base = TOP + CURVES;
    if (this.brush) {
      pen.fillStyle = colour.chosen;
      const from = this.#x(Math.max(this.brush[0], this.view[0]));
      pen.fillRect(from, 0, Math.max(2, this.#x(Math.min(this.brush[1], this.view[1]) + 1) - from), HEIGHT - AXIS);
    }
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour.faint;
    pen.strokeStyle = colour.line;
    for (const score of [0, 0.5, 1]) {
      const y = base - score * CURVES;
      pen.fillText(String(score), 2, y + 4);
      pen.strokeRect(LEFT, y, this.plot, 0);
    }
    this.concepts.forEach((concept, at) => this.#curve(pen, concept, colour[CURVE_COLOURS[at]]));
    this.#drawMarks(pen, colour, base + GAP);
    const size = Math.max(1, (this.width * this.plot) / this.count);
    const y = base + GAP + MARKS + GAP;
    for (const step of this.steps) {
      pen.fillStyle = colour[EVENT_COLOURS[step.event_type]] ?? colour.fresh;
      pen.fillRect(this.#x(step.tick), y, size, STRIP);
    }
    pen.fillStyle = colour.faint;
    pen.fillText(number(this.view[0]), LEFT, HEIGHT - 4);
    const end = number(this.view[1]);
    pen.fillText(end, LEFT + this.plot - pen.measureText(end).width, HEIGHT - 4);
  }

  #curve(pen, concept, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let before = null;
    for (const step of this.steps) {
      const x = this.#x(step.tick + this.width / 2);
      const y = TOP + CURVES - Math.max(0, Math.min(1, step.concept_activations[concept] ?? 0)) * CURVES;
      if (before === step.tick - this.width) pen.lineTo(x, y);
      else pen.moveTo(x, y);
      if (this.steps.length === 1) pen.lineTo(x + 1, y);
      before = step.tick;
    }
    pen.stroke();
    pen.lineWidth = 1;
  }

  #drawMarks(pen, colour, y) {
    const box = ({ start_tick: start, end_tick: end }) => {
      const from = this.#x(Math.max(start, this.view[0]));
      return [from, Math.max(3, this.#x(Math.min(end, this.view[1]) + 1) - from)];
    };
    pen.fillStyle = colour.warn;
    for (const tag of this.marks.tags) {
      const [from, width] = box(tag);
      pen.fillRect(from, y, width, MARKS / 2 - 1);
    }
    pen.strokeStyle = colour.accent;
    for (const comment of this.marks.comments) {
      const [from, width] = box(comment);
      pen.strokeRect(from + 0.5, y + MARKS / 2 + 0.5, Math.max(2, width - 1), MARKS / 2 - 2);
    }
  }

  get count() {
    return this.view[1] - this.view[0] + 1;
  }

  #describe() {
    const [first, last] = this.brush ?? this.view;
    this.canvas.setAttribute("aria-valuemin", this.view[0]);
    this.canvas.setAttribute("aria-valuemax", this.view[1]);
    this.canvas.setAttribute("aria-valuenow", last);
    this.canvas.setAttribute("aria-valuetext", this.brush ? `ticks ${first} to ${last} selected` : `ticks ${first} to ${last}`);
  }

  #x(tick) {
    return LEFT + ((tick - this.view[0]) * this.plot) / this.count;
  }

  #tick(event) {
    const at = this.view[0] + Math.floor(((event.offsetX - LEFT) * this.count) / this.plot);
    return Math.max(this.view[0], Math.min(this.view[1], at));
  }

  #down(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.from = this.#tick(event);
    this.select([this.from, this.from]);
  }

  #move(event) {
    if (!this.from) return;
    const to = this.#tick(event);
    this.select([Math.min(this.from, to), Math.max(this.from, to)]);
  }

  #up() {
    if (!this.from) return;
    this.from = 0;
    this.onBrush(this.brush);
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const [first, last] = this.brush ?? [this.view[0] - 1, this.view[0] - 1];
    const within = (tick) => Math.max(this.view[0], Math.min(this.view[1], tick));
    const next = within(last + by);
    this.select(event.shiftKey && this.brush ? [Math.min(first, next), next] : [next, next]);
    this.onBrush(this.brush);
  }
}

/** The name of a concept without its pack. */
export const shortConcept = (concept) => concept.split("::").at(-1) || concept;

/** The style sheet's colours in the current theme. A canvas cannot use CSS variables. */
function colours(near) {
  const probe = h("i", { hidden: true });
  near.append(probe);
  const names = [...CURVE_COLOURS, ...Object.values(EVENT_COLOURS), "fresh", "line", "faint", "chosen", "warn", "accent"];
  const values = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(values);
}
