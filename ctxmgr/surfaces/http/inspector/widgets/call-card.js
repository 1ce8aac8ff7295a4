// One tool call as a card that unfolds: status, arguments, output, each to copy.

import { get } from "../data/api.js";
import { toSession } from "../data/address.js";
import { count, number } from "../data/words.js";
import { codeView } from "./code-view.js";
import { copyButton, h, skeleton } from "./dom.js";

const SIMPLE_CHARS_MAX = 200;

/** @param call of /calls or /turn; `took` is its duration in words, if it is known */
export function callCard(session, call, { open = false, took = "", withTurn = false, onFault }) {
  const body = h("div", { class: "card-body" });
  const card = h(
    "details",
    { class: `card ${call.status === "ok" ? "" : "is-failed"}`, "data-call": call.object_id, ontoggle: () => card.open && fill() },
    h(
      "summary",
      {},
      h("span", { class: `status ${call.status}` }, call.status === "ok" ? "✓" : "✗ failed"),
      h("b", {}, call.tool),
      h("span", { class: "name", title: call.argument }, call.argument),
      took ? h("span", { class: "faint figure" }, took) : null,
      withTurn ? h("a", { class: "faint", href: toSession(session.id, "turn", call.turn) }, `turn ${number(call.turn)}`) : null,
    ),
    body,
  );
  let filled = false;
  async function fill() {
    if (filled) return;
    filled = true;
    body.replaceChildren(...argumentsView(call), skeleton(3));
    try {
      body.replaceChildren(...argumentsView(call), ...(await output(session, call)));
    } catch (error) {
      filled = false;
      body.replaceChildren(...argumentsView(call), h("p", { class: "bad" }, error.message));
      if (error.name !== "AbortError") onFault(error);
    }
  }
  card.open = open;
  return card;
}

function argumentsView(call) {
  const entries = Object.entries(call.args);
  if (!entries.length) return [h("p", { class: "faint" }, "No arguments.")];
  return [
    h("h3", {}, "Arguments", copyButton(() => JSON.stringify(call.args, null, 2))),
    h("dl", { class: "arguments" }, ...entries.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, argument(value, call))])),
  ];
}

function argument(value, call) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (text.length < SIMPLE_CHARS_MAX && !text.includes("\n")) return h("code", {}, text);
  return codeView(text, { path: typeof value === "string" ? call.argument : ".json" });
}

async function output(session, call) {
  if (!call.stored) return [h("p", { class: "faint" }, "This tool changes what the next prompt shows; its output is in the answer.")];
  const object = await get("/show", { name: call.object_id, session: session.ref }, session.ending);
  const text = object.content ?? "";
  const path = /^(read|view|cat|open)/i.test(call.tool) ? call.argument : "";
  return [
    h("h3", {}, `Output: ${count(text.split("\n").length - (text.endsWith("\n") ? 1 : 0), "line")}`, copyButton(text)),
    text ? codeView(text, { path }) : h("p", { class: "faint" }, "The output is empty."),
  ];
}
