// A memory on both time axes: when it was believed (across), and when it was true (down).
//
// Every version is a rectangle: from when it was stored until the next one was, and from when it held
// until it ended. What still holds reaches the edge.

import { timeText } from "../data/words.js";
import { h } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 220;
const MARGIN = 4;
const SVG = "http://www.w3.org/2000/svg";

/** @param versions with believedFrom, validFrom, validTo (null: still), text; oldest first */
export function timePlane(versions, { now = Date.now() } = {}) {
  const first = Math.min(...versions.map((version) => Math.min(version.believedFrom, version.validFrom)));
  const last = Math.max(now, first + 1, ...versions.map((version) => version.believedFrom + 1));
  const at = (time, size) => MARGIN + ((Math.min(time, last) - first) * (size - 2 * MARGIN)) / (last - first);
  const plane = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "time-plane", role: "img", "aria-label": `${versions.length} versions on both time axes` });
  versions.forEach((version, place) => {
    const until = versions[place + 1]?.believedFrom ?? last;
    const [left, right] = [at(version.believedFrom, WIDTH), at(until, WIDTH)];
    const [top, bottom] = [at(version.validFrom, HEIGHT), at(version.validTo ?? last, HEIGHT)];
    const box = svg("rect", { x: left, y: top, width: Math.max(1, right - left), height: Math.max(1, bottom - top), class: `belief ${version.validTo === null ? "holds" : "ended"}` });
    const title = svg("title", {});
    title.textContent = `${version.text}\nbelieved from ${timeText(version.believedFrom)}\ntrue from ${timeText(version.validFrom)}${version.validTo === null ? "" : ` to ${timeText(version.validTo)}`}`;
    box.append(title);
    plane.append(box);
  });
  return h("figure", { class: "time-figure" }, h("figcaption", { class: "faint" }, `→ when it was believed, ↓ when it was true; ${timeText(first)} to ${timeText(last)}`), plane);
}

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
}
