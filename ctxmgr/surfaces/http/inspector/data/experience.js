// What was recorded of one session: bounded requests for a range of ticks, and what follows from it.

import { get, post } from "./api.js";

/** Steps of one request, and so the most ticks that are shown at once. */
export const TICKS_MAX = 2_000;

export const RECALL_PAGE = 200;
const WINDOWS_MAX = 1_000;
const CURVE_POINTS = 1_000;

export const EVENTS = {
  input: "input",
  output: "output",
  tool_call: "tool call",
  tool_response: "tool response",
  steering: "steering",
  system: "system",
};

export class Experience {
  constructor(id) {
    this.id = id;
    this.last = null; // unknown until the first answer
    this.ending = new AbortController();
  }

  close() {
    this.ending.abort();
  }

  /** Tags and comments on a range of ticks; without one, of the last ticks. Also says how many ticks there are. */
  async marks(ticks = null) {
    const marks = await get("/v1/xdb/marks", { session: this.id, ticks: ticks && rangeText(ticks) }, this.ending);
    this.last = marks.last_tick;
    return marks;
  }

  async steps(ticks) {
    return (await get("/v1/xdb/recall", { session: this.id, ticks: rangeText(ticks), limit: TICKS_MAX }, this.ending)).steps;
  }

  /** All ticks, in few points: as steps, and how many ticks each stands for. */
  async curves() {
    const { points, ticks_per_point: width } = await get("/v1/xdb/curves", { session: this.id, points: CURVE_POINTS }, this.ending);
    return { width, steps: points.map(({ start_tick: tick, steps: kept, ...point }) => ({ ...point, tick, kept })) };
  }

  /** One page of the steps in a range that match the filters, and whether there are more. */
  async recall(ticks, { text, kind, offset }) {
    const query = { session: this.id, ticks: rangeText(ticks), text: text || null, kind: kind || null, limit: RECALL_PAGE + 1, offset };
    const { steps } = await get("/v1/xdb/recall", query, this.ending);
    return { steps: steps.slice(0, RECALL_PAGE), more: steps.length > RECALL_PAGE };
  }

  windows() {
    return get("/v1/xdb/windows", { session: this.id, limit: WINDOWS_MAX }, this.ending);
  }

  storage() {
    return get("/v1/xdb/storage", {}, this.ending);
  }

  tag(name, ticks) {
    return post("/v1/xdb/tag", { tag: name, session: this.id, ticks: rangeText(ticks) });
  }

  comment(content, ticks) {
    return post("/v1/xdb/comment", { content, session: this.id, ticks: rangeText(ticks) });
  }
}

export const rangeText = ([first, last]) => `${first}-${last}`;

/** "10-20" as a range of at most `size` ticks; null if it is none. */
export function parseRange(text, size) {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? "");
  if (!match) return null;
  const [first, last] = [Math.max(1, Number(match[1])), Number(match[2])];
  return first <= last ? [first, Math.min(last, first + size - 1)] : null;
}

/** The concepts of some steps, by their highest score. */
export function conceptsOf(steps) {
  const highest = new Map();
  for (const step of steps) {
    for (const [concept, score] of Object.entries(step.concept_activations)) {
      if (score > (highest.get(concept) ?? -Infinity)) highest.set(concept, score);
    }
  }
  return [...highest].sort(([a, high], [b, low]) => low - high || (a < b ? -1 : 1)).map(([concept]) => concept);
}

/** Steps that follow each other in one event, as one passage. */
export function passages(steps) {
  const found = [];
  for (const step of steps) {
    const last = found.at(-1);
    const same = last && step.event_id !== null && last.event_id === step.event_id && last.event_type === step.event_type;
    if (same) last.steps.push(step);
    else found.push({ event_id: step.event_id, event_type: step.event_type, role: step.role, steps: [step] });
  }
  return found;
}
