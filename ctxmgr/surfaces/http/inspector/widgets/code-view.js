// Text in lines with numbers, coloured as a diff or as code where that is what it is.

import { h } from "./dom.js";

const LINES_PER_CHUNK = 200;
const COLOURED_CHARS_MAX = 400_000;
const LINE_CHARS_MAX = 2_000;
const DIFF = /^(diff --git |--- |\+\+\+ |@@ -\d)/m;
const HUNK = /^@@ -\d/m;
const CODE = /\.(c|cc|clj|cpp|cs|css|go|h|hpp|html|java|js|json|jsx|kt|lua|m|mjs|php|pl|py|pyi|rb|rs|scala|sh|sql|swift|toml|ts|tsx|xml|ya?ml|zig)$/i;
const TOKEN = /(\/\/.*$|#(?![0-9a-fA-F]{3,8}\b).*$|--\s.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(\d[\d_.]*)\b|\b(and|as|assert|async|await|break|case|catch|class|const|continue|def|del|do|elif|else|enum|except|export|extends|false|False|finally|fn|for|from|func|function|if|impl|import|in|interface|is|lambda|let|match|mod|mut|new|nil|None|not|null|or|package|pass|private|pub|public|raise|return|self|static|struct|super|switch|this|throw|trait|true|True|try|type|use|var|void|while|with|yield)\b/g;
const CLASSES = ["", "comment", "string", "digits", "keyword"];
const MARKS = { "+": "added", "-": "removed", "@": "hunk" };

/** How a text is coloured: "diff", "code" or "". */
export function languageOf(text, path = "") {
  if (text.length > COLOURED_CHARS_MAX) return "";
  if (DIFF.test(text) && HUNK.test(text)) return "diff";
  return CODE.test(path) ? "code" : "";
}

/** The lines of a text; a newline at its end does not begin another. */
export function linesOf(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The children of one line. */
export function coloured(line, language) {
  if (language !== "code" || line.length > LINE_CHARS_MAX) return [line];
  const parts = [];
  let at = 0;
  for (const match of line.matchAll(TOKEN)) {
    const kind = match.findIndex((group, index) => index && group !== undefined);
    parts.push(line.slice(at, match.index), h("span", { class: CLASSES[kind] }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(line.slice(at));
  return parts.filter((part) => part !== "");
}

export const lineClass = (line, language) => (language === "diff" ? (MARKS[line[0]] ?? "") : "");

/** Rows in chunks: a browser lays out only the chunks that are visible. */
export function chunked(rows) {
  const chunks = [];
  for (let at = 0; at < rows.length; at += LINES_PER_CHUNK) {
    const chunk = h("div", { class: "chunk" }, ...rows.slice(at, at + LINES_PER_CHUNK));
    chunk.style.containIntrinsicSize = `auto ${Math.min(LINES_PER_CHUNK, rows.length - at) * 1.2}rem`;
    chunks.push(chunk);
  }
  return chunks;
}

/** A text with line numbers. */
export function codeView(text, { path = "", first = 1 } = {}) {
  const language = languageOf(text, path);
  const rows = linesOf(text).map((line, at) =>
    h("div", { class: `line ${lineClass(line, language)}` }, h("i", { class: "no", "data-no": first + at }), h("span", {}, ...coloured(line, language))),
  );
  return h("div", { class: "code", tabindex: "0" }, ...chunked(rows));
}
