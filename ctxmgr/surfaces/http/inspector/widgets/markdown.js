// The common part of Markdown as elements: headings, lists, quotes, code, bold, italic. Nothing in a
// text becomes HTML, and links are shown as their text.

import { codeView } from "./code-view.js";
import { h } from "./dom.js";

const FENCE = /^\s*(```|~~~)\s*([\w.+-]*)/;
const INLINE = /(`+)([^`]+?)\1|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])|\[([^\]]+)\]\(([^)\s]+)\)/g;
const CHARS_MAX = 200_000;

export function markdown(text) {
  if (text.length > CHARS_MAX) return h("pre", {}, text);
  const blocks = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) at = block(lines, at, blocks);
  return h("div", { class: "markdown" }, ...blocks);
}

/** Add the block that begins at a line; return the line after it. */
function block(lines, at, blocks) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence, blocks);
  const heading = /^(#{1,6})\s+(.*)/.exec(line);
  if (heading) {
    blocks.push(h("p", { class: `heading h${heading[1].length}` }, ...inline(heading[2])));
    return at + 1;
  }
  if (/^\s*([-*+]|\d+[.)])\s/.test(line)) return list(lines, at, blocks);
  if (!line.trim()) return at + 1;
  let end = at;
  while (end < lines.length && lines[end].trim() && !FENCE.test(lines[end]) && (end === at || !/^(#{1,6}\s|\s*([-*+]|\d+[.)])\s)/.test(lines[end]))) end += 1;
  const paragraph = lines.slice(at, end).join("\n");
  const quoted = /^\s*>/.test(paragraph);
  blocks.push(h(quoted ? "blockquote" : "p", {}, ...inline(quoted ? paragraph.replace(/^\s*> ?/gm, "") : paragraph)));
  return end;
}

function fenced(lines, at, [, mark, language], blocks) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(mark)) end += 1;
  blocks.push(codeView(lines.slice(at + 1, end).join("\n"), { path: `.${language || "py"}` }));
  return end + 1;
}

function list(lines, at, blocks) {
  const items = [];
  const ordered = /^\s*\d/.test(lines[at]);
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = /^\s*(?:[-*+]|\d+[.)])\s+(.*)/.exec(lines[end]);
    if (item) items.push([item[1]]);
    else if (lines[end].trim() && /^\s/.test(lines[end])) items.at(-1).push(lines[end].trim());
    else break;
  }
  blocks.push(h(ordered ? "ol" : "ul", {}, ...items.map((parts) => h("li", {}, ...inline(parts.join(" "))))));
  return end;
}

function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(at, match.index));
    const [all, , code, bold, italic, label, target] = match;
    if (code !== undefined) parts.push(h("code", {}, code));
    else if (bold !== undefined) parts.push(h("b", {}, bold));
    else if (italic !== undefined) parts.push(h("em", {}, italic));
    else parts.push(h("span", { class: "link", title: target }, label));
    at = match.index + all.length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}
