// A table of a few hundred rows at most. Cells are texts or elements; figures are right-aligned.

import { h } from "./dom.js";

/** @param heads names of columns; one that begins with "#" is a figure */
export function plainTable(heads, rows, { label, empty = "Nothing." }) {
  if (!rows.length) return h("p", { class: "faint" }, empty);
  const kinds = heads.map((name) => (name.startsWith("#") ? "figure" : null));
  const cell = (tag) => (content, at) => h(tag, { class: kinds[at] }, ...[content].flat().map((part) => part ?? "–"));
  return h(
    "table",
    { class: "plain", "aria-label": label },
    h("thead", {}, h("tr", {}, ...heads.map((name) => name.replace("#", "")).map(cell("th")))),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map(cell("td"))))),
  );
}
