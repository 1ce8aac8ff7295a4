// A unified diff in colour. Lines outside the viewport are not laid out.

import { chunked, linesOf } from "./code-view.js";
import { h } from "./dom.js";

const KINDS = { "+": "added", "-": "removed", "@": "hunk" };

export function diffView(text, { same = "No differences." } = {}) {
  if (!text) return h("p", { class: "faint" }, same);
  const rows = linesOf(text).map((line, at) => h("div", { class: `line ${kind(line, at)}` }, `${line}\n`));
  return h("div", { class: "code diff" }, ...chunked(rows));
}

function kind(line, at) {
  return at < 2 && /^(---|\+\+\+) /.test(line) ? "name" : (KINDS[line[0]] ?? "");
}
