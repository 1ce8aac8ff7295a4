// A piece of a prompt in full: which lines the model saw, and which folding hid from it.

import { count, number, percent } from "../data/words.js";
import { chunked, coloured, languageOf, lineClass, linesOf } from "./code-view.js";
import { h } from "./dom.js";

const SIGNS = { shown: " ", hidden: "−", elsewhere: "=" };

/** @param view the answer of /unfold */
export function foldView(view, { path = "" } = {}) {
  if (!view.texts.length) return h("p", { class: "faint" }, "Nothing of this piece is hidden.");
  return h("div", { class: "unfolded" }, legend(), ...view.texts.map((text) => textView(text, path)));
}

function legend() {
  return h(
    "div",
    { class: "fold-legend" },
    h("span", {}, h("i", { class: "sign shown" }), "the model saw this"),
    h("span", {}, h("i", { class: "sign hidden" }), "hidden from the model"),
    h("span", {}, h("i", { class: "sign elsewhere" }), "shown elsewhere in the same prompt"),
  );
}

function textView(text, path) {
  const whole = text.parts.map((part) => part.text).join("");
  const language = languageOf(whole, path);
  const rows = text.parts.flatMap((part) => linesOf(part.text).map((line, at) => row(part, line, part.first_line + at, language)));
  const body = h("div", { class: "code folds", tabindex: "0" }, ...chunked(rows));
  const hidden = rows.filter((line, at) => line.classList.contains("is-hidden") && !rows[at - 1]?.classList.contains("is-hidden"));
  return h(
    "section",
    { class: "unfolded-text" },
    h(
      "header",
      {},
      h("b", {}, TITLES[text.what] ?? `argument ${text.what.slice(1)}`),
      h("span", {}, text.hidden_lines ? `${number(text.hidden_lines)} of ${count(text.lines, "line")} hidden (${percent(text.hidden_lines, text.lines)})` : `all ${count(text.lines, "line")} shown`),
      h("span", { class: "faint" }, `${number(text.tokens)} tokens in full`),
      hidden.length ? nextHidden(hidden) : null,
    ),
    strip(text),
    body,
  );
}

const TITLES = { output: "Output", notice: "Notice", object: "Text" };

function row(part, line, numbered, language) {
  const title = part.state === "elsewhere" ? `the prompt shows this line at ${part.as_in}` : part.state === "hidden" ? "the model did not see this line" : null;
  return h(
    "div",
    { class: `line is-${part.state} ${lineClass(line, language)}`, title },
    h("i", { class: "no", "data-no": numbered }),
    h("i", { class: "sign", "data-sign": SIGNS[part.state] }),
    h("span", {}, ...coloured(line, language)),
  );
}

/** The whole text as a narrow bar, so that one sees at a glance where it was cut. */
function strip(text) {
  const parts = text.parts.map((part) => {
    const piece = h("i", { class: part.state, title: `lines ${part.first_line}–${part.first_line + part.lines - 1}: ${part.state}` });
    piece.style.flex = `${part.lines} 0 0`;
    return piece;
  });
  return h("div", { class: "fold-strip", "aria-hidden": "true" }, ...parts);
}

function nextHidden(starts) {
  let at = -1;
  const button = h("button", { type: "button", class: "quiet", onclick: next }, `Next hidden part (${starts.length})`);
  function next() {
    at = (at + 1) % starts.length;
    starts[at].scrollIntoView({ block: "center" });
    starts[at].animate?.([{ outline: "2px solid currentcolor" }, { outline: "none" }], { duration: 900 });
  }
  return button;
}
