// Topics: what fired and why, what a topic adds to a prompt, and what a message would activate.
//
//   #/knowledge/topics/NAME

import { address, toSession } from "../data/address.js";
import { get } from "../data/api.js";
import { when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { plainTable } from "../widgets/plain-table.js";
import { toNote } from "./notes.js";

const DECISIONS_SHOWN = 100;

const toTopic = (name) => address("knowledge", "topics", name);

export class TopicsPanel {
  constructor() {
    this.topics = h("section", { "aria-label": "Topics" }, skeleton(4));
    this.filter = h("input", { type: "search", placeholder: "A message", "aria-label": "Message to try" });
    this.trial = h("div", { role: "status" });
    this.topic = h("section", { "aria-label": "Topic" });
    this.log = h("section", { "aria-label": "What fired" }, skeleton(4));
    this.element = h("div", {}, h("form", { class: "filter", onsubmit: (event) => this.#try(event) }, this.filter, h("button", {}, "What would it activate?")), this.trial, this.topics, this.topic, this.log);
  }

  async show([name]) {
    const [{ topics, errors }, { decisions }] = await Promise.all([get("/v1/topics/list"), get("/v1/topics/log", { topic: name, limit: DECISIONS_SHOWN })]);
    const rows = topics.map((topic) => [h("a", { href: toTopic(topic.name) }, topic.name), topic.description, topic.priority, topic.activation, String(topic.triggers)]);
    this.topics.replaceChildren(
      plainTable(["topic", "description", "priority", "activation", "#triggers"], rows, { label: "Topics", empty: "There are no topics." }),
      ...(errors ? [h("p", { class: "warn" }, `${errors} topic files cannot be used: ctxmgr topics check lists them.`)] : []),
    );
    const fired = decisions.map((each) => [
      when(each.time),
      h("a", { href: toTopic(each.topic) }, each.topic),
      each.result,
      [each.decider, each.triggers.length ? ` (${each.triggers.join(", ")})` : ""].join(""),
      each.score.toFixed(3),
      each.direction,
      each.was_useful === null ? "–" : each.was_useful ? "yes" : "no",
      each.session_id ? h("a", { href: toSession(each.session_id) }, each.session_id) : "–",
    ]);
    this.log.replaceChildren(
      h("h3", {}, name ? `What fired: ${name}` : "What fired"),
      plainTable(["when", "topic", "result", "decided by", "#score", "direction", "useful", "session"], fired, { label: "Decisions", empty: "Nothing was decided yet." }),
    );
    this.topic.replaceChildren(...(name ? await topicView(name) : []));
  }

  async #try(event) {
    event.preventDefault();
    const message = this.filter.value.trim();
    if (!message) return;
    this.trial.replaceChildren(skeleton(2));
    const { active, candidates } = await get("/v1/topics/try", { message });
    const rows = candidates.map((each) => [
      h("a", { href: toTopic(each.topic) }, each.topic),
      active.includes(each.topic) ? h("b", {}, each.result) : each.result,
      each.tier1.join(", ") || "–",
      each.score.toFixed(3),
      each.decider,
      [each.reason, each.hint].filter(Boolean).join("; "),
    ]);
    this.trial.replaceChildren(
      h("h3", {}, active.length ? `Would activate ${active.join(", ")}` : "Would activate nothing"),
      plainTable(["topic", "result", "triggers", "#score", "decided by", "why"], rows, { label: "Candidates", empty: "No topic comes close." }),
    );
  }
}

/** A topic: when it fires, and what it adds to a prompt. */
async function topicView(name) {
  const topic = await get("/v1/topics/show", { name });
  return [
    h("h2", {}, h("a", { href: toNote(topic.path) }, topic.name)),
    h("p", {}, topic.description),
    h("p", { class: "faint" }, `triggers: ${topic.triggers.join("; ") || "none"}`),
    h("p", { class: "faint" }, `keywords: ${topic.keywords.join(", ") || "none"}`),
    h("h3", {}, "What a prompt gets"),
    h("pre", { class: "then" }, topic.shown),
    topic.subscriptions.length ? h("p", { class: "faint" }, `and of these notes what fits: ${topic.subscriptions.join(", ")}`) : null,
  ].filter(Boolean);
}
