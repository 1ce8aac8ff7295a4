// A unified diff in colour. Lines outside the viewport are not laid out.

import { h } from "./dom.js";

const KINDS = { "+": "added", "-": "removed", "@": "hunk" };

export function diffView(text, { same = "No differences." } = {}) {
  if (!text) return h("p", { class: "faint" }, same);
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return h("pre", { class: "diff" }, ...lines.map((line, at) => h("span", { class: kind(line, at) }, `${line}\n`)));
}

function kind(line, at) {
  return at < 2 && /^(---|\+\+\+) /.test(line) ? "name" : (KINDS[line[0]] ?? "");
}
