// Memories of the server's user and project, and words for them.

import { address } from "./address.js";
import { getAll } from "./api.js";

export const toMemory = (id) => address("memory", "one", id);

/** An instant of a result, which is a number or ISO 8601; null stays null. */
export const instant = (value) => (value === null || typeof value === "number" ? value : Date.parse(value));

/** Every memory, forgotten ones included, by id. */
export async function memoriesById() {
  const memories = await getAll("/v1/memory/list", "memories", { forgotten: true });
  return new Map(memories.map((memory) => [memory.id, memory]));
}

/** Who wrote a memory and where it was learnt. */
export function provenance({ author, session_id: session, turn }) {
  const place = session === null ? "" : ` in ${session}${turn === null ? "" : `, turn ${turn}`}`;
  return `${author}${place}`;
}

/** How many memories were learnt, and how many held, at evenly spaced times from the first to now. */
export function growth(memories, { now = Date.now(), steps = 60 } = {}) {
  if (!memories.length) return [];
  const learnt = memories.map((memory) => instant(memory.learnt_at)).sort((a, b) => a - b);
  const ended = memories.filter((memory) => memory.valid_to !== null).map((memory) => instant(memory.valid_to)).sort((a, b) => a - b);
  const span = Math.max(1, now - learnt[0]);
  return Array.from({ length: steps }, (_, at) => {
    const time = learnt[0] + (span * (at + 1)) / steps;
    const all = below(learnt, time);
    return { time, learnt: all, held: all - below(ended, time) };
  });
}

/** How many of sorted numbers are at most as large. */
function below(sorted, limit) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
