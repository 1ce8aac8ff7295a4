// How a turn spent its time: one row for the answer and one for each tool call.

import { duration } from "../data/words.js";
import { h } from "./dom.js";

/** @param spans of /turn; `nameOf` names a tool call by its id; `asked`: the user said something */
export function waterfall(spans, { nameOf, asked }) {
  if (!spans.length) return null;
  const from = spans[0].start;
  const all = Math.max(1, spans.at(-1).end - from);
  const rows = spans
    .filter((span) => span.what !== "end" || span.end - span.start > all / 100)
    .map((span) => {
      const bar = h("i", { class: `bar ${span.what}` });
      bar.style.marginLeft = `${(100 * (span.start - from)) / all}%`;
      bar.style.width = `${Math.max(0.4, (100 * (span.end - span.start)) / all)}%`;
      return h("div", { class: "size" }, h("span", { class: "name" }, label(span, nameOf, asked)), h("span", { class: "gauge" }, bar), h("span", { class: "figure" }, duration(span.end - span.start)));
    });
  return h("section", { class: "waterfall", "aria-label": "Durations" }, h("h3", {}, "Time"), ...rows);
}

function label(span, nameOf, asked) {
  const model = asked ? "model, after waiting for the user" : "model";
  return { model, tool: nameOf(span.object_id), both: `${model}, then ${nameOf(span.object_id)}`, end: "until the turn was stored" }[span.what] ?? span.what;
}
