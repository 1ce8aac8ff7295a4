// Export a prompt as a request to a provider: as JSON, or as a curl command without credentials.

import { get } from "../data/api.js";
import { count } from "../data/words.js";
import { choice, copyButton, h, skeleton } from "./dom.js";

const PREVIEW_CHARS = 3_000;
const OUTPUT_TOKENS = 8192;

const APIS = {
  anthropic: {
    url: "https://api.anthropic.com/v1/messages",
    headers: ['"x-api-key: $ANTHROPIC_API_KEY"', '"anthropic-version: 2023-06-01"'],
    model: "claude-sonnet-4-5",
    body: (model, prompt) => ({ model, max_tokens: OUTPUT_TOKENS, ...prompt }),
  },
  openai: {
    url: "https://api.openai.com/v1/chat/completions",
    headers: ['"Authorization: Bearer $OPENAI_API_KEY"'],
    model: "gpt-5",
    body: (model, prompt) => ({ model, ...prompt }),
  },
};

/** The body on standard input: as an argument, a long prompt would exceed the limit of the system. */
export function curlCommand(form, body) {
  const { url, headers } = APIS[form];
  const flags = [...headers, '"content-type: application/json"'].map((header) => `  -H ${header} \\`);
  return [`curl ${url} \\`, ...flags, "  --data-binary @- <<'END_OF_REQUEST'", JSON.stringify(body), "END_OF_REQUEST", ""].join("\n");
}

export function exportDialog(session, turn, model, { onFault }) {
  const content = h("div", {}, skeleton(8));
  const first = model && !/claude/i.test(model) ? "openai" : "anthropic";
  const dialog = h(
    "dialog",
    { class: "export", "aria-label": "Export as a request" },
    h("h2", {}, `Turn ${turn} as a request to a provider`),
    h("p", { class: "faint" }, "The prompt as it was sent, without credentials. Tool definitions are not stored with a turn: add those of your harness."),
    choice([["anthropic", "Anthropic"], ["openai", "OpenAI"]], { chosen: first, label: "API", onChoose: load }),
    content,
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
  async function load(form) {
    content.replaceChildren(skeleton(8));
    try {
      const view = await get("/context", { session: session.ref, turn, form }, session.ending);
      content.replaceChildren(...exported(form, APIS[form].body(modelFor(form, model), view.prompt), `${session.id}-turn-${turn}`));
    } catch (error) {
      if (error.name !== "AbortError") onFault(error);
    }
  }
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  load(first);
}

/** The model of the turn, if it may be one of this provider. */
function modelFor(form, model) {
  return model && /claude/i.test(model) === (form === "anthropic") ? model : APIS[form].model;
}

function exported(form, body, name) {
  const json = JSON.stringify(body, null, 2);
  const file = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  const more = json.length > PREVIEW_CHARS ? `\n… ${count(json.length - PREVIEW_CHARS, "more character")}` : "";
  return [
    h("div", { class: "actions" }, copyButton(json, "Copy JSON"), copyButton(() => curlCommand(form, body), "Copy curl"), h("a", { class: "button", href: file, download: `${name}-${form}.json` }, "Download JSON")),
    h("pre", { class: "content" }, json.slice(0, PREVIEW_CHARS) + more),
  ];
}
