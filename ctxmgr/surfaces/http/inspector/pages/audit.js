// The audit log, for reviewers: what it holds, whether it was altered, and its records. Read only.
//
// Its token is a reviewer's, which opens nothing else: it is kept apart from the page's own until the
// tab is closed. Every query is recorded in the log.

import { address } from "../data/address.js";
import { requestAs } from "../data/api.js";
import { EVENTS } from "../data/experience.js";
import { compact, count, number, timeText, when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";

const TOKEN = "ctxmgr-reviewer-token";
const PAGE_RECORDS = 50;
const CHARS_SHOWN = 2_000;

export class AuditPage {
  constructor([session]) {
    this.facts = h("div", { class: "facts", role: "status" });
    this.token = h("input", { type: "password", autocomplete: "off", "aria-label": "Reviewer's token", placeholder: "ctxmgr_…" });
    this.fault = h("p", { class: "warn", role: "alert" });
    this.entrance = h(
      "form",
      { class: "hint", onsubmit: (event) => this.#enter(event) },
      h("p", {}, h("b", {}, "The audit log needs a reviewer's token.")),
      h("p", { class: "faint" }, "Create one with ", h("code", {}, "ctxmgr token --reviewer NAME"), " on the server's machine. This page keeps it until the tab is closed."),
      h("div", { class: "filter" }, this.token, h("button", {}, "Use token")),
      this.fault,
    );
    this.session = h("input", { type: "search", placeholder: "Session", "aria-label": "Session", value: session ?? "" });
    this.kind = h("select", { "aria-label": "Kind of event" }, h("option", { value: "" }, "all events"), ...Object.entries(EVENTS).map(([name, label]) => h("option", { value: name }, label)));
    this.text = h("input", { type: "search", placeholder: "Only records with this text", "aria-label": "Record text" });
    this.verified = h("div", { class: "verified", role: "status" });
    this.records = h("div", { class: "audit-records" });
    this.log = h(
      "div",
      { class: "audit-log" },
      h("div", { class: "filter" }, h("button", { type: "button", onclick: () => this.#verify() }, "Verify the log"), h("button", { type: "button", class: "quiet", onclick: () => this.#leave() }, "Forget the token")),
      this.verified,
      h("form", { class: "filter", onsubmit: (event) => this.#asked(event) }, this.session, this.kind, this.text, h("button", {}, "Query")),
      h("p", { class: "faint" }, "Every query is recorded in the log, with the reviewer's name."),
      this.records,
    );
    this.place = h("div", { class: "experience-body" });
    this.element = h("div", { class: "experience audit page" }, h("header", { class: "session-head" }, h("h1", {}, "Audit log"), this.facts), this.place);
  }

  async load() {
    if (sessionStorage.getItem(TOKEN)) await this.#open();
    else this.place.replaceChildren(this.entrance);
  }

  async show([session]) {
    if (session !== undefined) this.session.value = session;
  }

  close() {
    this.closed = true;
  }

  key(name) {
    if (name !== "/") return false;
    this.text.focus();
    return true;
  }

  async #enter(event) {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, this.token.value.trim());
    this.token.value = "";
    await this.#open();
  }

  #leave(message = "") {
    sessionStorage.removeItem(TOKEN);
    this.fault.textContent = message;
    this.facts.replaceChildren();
    this.records.replaceChildren();
    this.place.replaceChildren(this.entrance);
  }

  async #open() {
    const state = await this.#request("status");
    if (!state) return;
    const last = state.last_checkpoint ? `, the last one ${timeText(Date.parse(state.last_checkpoint))}` : "";
    this.facts.replaceChildren(
      h("span", {}, `${count(state.records, "record")} in ${count(state.segments, "segment")}, ${compact(state.bytes)}B`),
      h("span", {}, `${count(state.checkpoints, "signed checkpoint")}${last}`),
      h("span", { class: state.signed < state.records ? "warn" : "" }, `signed up to record ${number(state.signed)}`),
      h("span", { class: "faint", title: "Compare it with the key that you kept" }, `key ${state.public_key.slice(0, 16)}…`),
    );
    this.place.replaceChildren(this.log);
  }

  async #verify() {
    this.verified.replaceChildren(skeleton(1));
    const result = await this.#request("verify");
    if (!result) return;
    this.verified.replaceChildren(
      h("p", { class: result.verified ? "" : "warn" }, result.verified ? `Verified: ${count(result.records, "record")} as they were written.` : "The log was altered. Keep its folder as evidence."),
      ...result.faults.map((found) => h("p", { class: "warn" }, `${found.place}, ${found.field}: ${found.reason}`)),
    );
  }

  async #asked(event) {
    event.preventDefault();
    location.hash = address("audit", this.session.value.trim());
    this.records.replaceChildren();
    await this.#page(0);
  }

  /** Load the records after a number, and show them below the others. */
  async #page(after) {
    const query = { session: this.session.value.trim() || null, kind: this.kind.value || null, text: this.text.value || null, after, limit: PAGE_RECORDS };
    const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== null));
    const records = await this.#request("query", given);
    if (!records) return;
    this.more?.remove();
    this.more = records.length ? h("button", { type: "button", onclick: () => this.#page(records.at(-1).number) }, "Show more") : null;
    if (!records.length && !after) this.records.append(h("p", { class: "faint" }, "No record matches."));
    this.records.append(...records.map(row), ...(this.more ? [this.more] : []));
  }

  /** Ask the log; null if it refused, which is then shown. */
  async #request(name, body = {}) {
    try {
      const answer = await requestAs(sessionStorage.getItem(TOKEN), `/v1/audit/${name}`, body);
      return this.closed ? null : answer;
    } catch (error) {
      if (error.status === 401) this.#leave(error.message);
      else this.place.replaceChildren(h("div", { class: "hint" }, h("p", {}, h("b", {}, error.message)), h("p", { class: "faint" }, error.next)));
      return null;
    }
  }
}

function row(record) {
  const scores = Object.entries(record.lens_activations).sort(([, a], [, b]) => b - a);
  const cut = record.raw_content.length - CHARS_SHOWN;
  return h(
    "details",
    { class: "audit-record" },
    h("summary", {}, h("span", { class: "figure faint" }, number(record.number)), " ", when(record.time), " ", h("b", {}, EVENTS[record.event_type] ?? record.event_type), ` ${record.session_id} `, h("span", { class: "mark-text" }, record.raw_content.slice(0, 120))),
    h("pre", {}, record.raw_content.slice(0, CHARS_SHOWN), cut > 0 ? `\n… ${number(cut)} more characters` : ""),
    ...(scores.length ? [h("p", {}, h("b", {}, "lenses "), scores.map(([concept, score]) => `${concept} ${score}`).join(", "))] : []),
    ...record.steering_applied.map((directive) => h("p", {}, h("b", {}, "steering "), JSON.stringify(directive))),
    h("p", { class: "faint" }, `${record.id}, tick ${number(record.tick)}, full hash ${record.full_hash.slice(0, 16)}…`),
  );
}
