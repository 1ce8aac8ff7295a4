// What passed through the proxy in a session: each request with its bill, and both sides of one.

import { address, toSession } from "../data/address.js";
import { get } from "../data/api.js";
import { count, number, when } from "../data/words.js";
import { h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { plainTable } from "../widgets/plain-table.js";
import { missing } from "./missing.js";

const HEADS = ["Request", "Time", "Model", "Status", "What was done", "#Prompt", "#Cached", "#Billed", "#Saved", "Cache break"];

const figure = (value) => (value === null ? null : number(Math.round(value)));

export class ProxyPage {
  constructor([session]) {
    this.session = session;
    this.ending = new AbortController();
    this.sum = h("div", { class: "facts", role: "status" });
    this.list = h("div", {}, skeleton(6));
    this.detail = h("section", { class: "proxied", "aria-label": "Request" });
    this.element = h("div", { class: "proxy page" }, h("header", { class: "session-head" }, h("h1", {}, "Proxy: ", h("a", { href: toSession(session) }, session)), this.sum), this.detail, this.list);
  }

  async load() {
    try {
      this.#draw(await get("/proxy-requests", { session: this.session }, this.ending));
    } catch (error) {
      this.#failed(error);
    }
  }

  async show([, n]) {
    if (!n) return this.detail.replaceChildren();
    this.detail.replaceChildren(skeleton(8));
    try {
      this.#drawRequest(await get("/proxy-request", { session: this.session, number: n }, this.ending));
    } catch (error) {
      this.#failed(error);
    }
    return null;
  }

  key() {
    return false;
  }

  close() {
    this.ending.abort();
  }

  #failed(error) {
    if (error.name === "AbortError") return;
    if (error.code === "not_found") this.element.replaceChildren(missing(error.message));
    else fault(error);
  }

  #draw({ requests, billed, baseline, saved, breaks, exchanges }) {
    this.sum.replaceChildren(
      h("span", {}, count(requests, "request")),
      h("span", {}, `${figure(billed)} tokens billed`),
      h("span", {}, `${figure(baseline)} without the proxy`),
      h("span", { class: saved < 0 ? "warn" : null }, `net ${saved < 0 ? "lost" : "saved"}: ${figure(Math.abs(saved))}`),
      h("span", {}, count(breaks, "cache break")),
    );
    const rows = exchanges.toReversed().map((row) => [
      h("a", { href: address("proxy", this.session, row.n) }, String(row.n)),
      when(row.began),
      row.model,
      row.status === null ? "no answer" : String(row.status),
      row.shaped ? `shaped, ${count(row.folds, "fold")}` : `as it came: ${row.reason ?? "nothing to shape"}`,
      figure(row.prompt_tokens),
      figure(row.cached_tokens),
      figure(row.billed),
      figure(row.saved),
      row.lost_because && `${number(row.lost_tokens)} tokens: ${row.lost_because}`,
    ]);
    this.list.replaceChildren(plainTable(HEADS, rows, { label: "Requests", empty: "No requests." }));
  }

  #drawRequest({ row, folds, refused, messages, settings, answer }) {
    const changed = messages.filter((pair) => pair.changed).length;
    this.detail.replaceChildren(
      h("h2", {}, `Request ${row.n}: as the client sent it, and as it went out`),
      h("p", { class: "faint" }, `${count(messages.length, "message")}, ${changed} changed; ${row.shaped ? count(folds.length, "fold") : (row.reason ?? "nothing to shape")}`),
      refused && h("p", { class: "warn" }, `The provider refused the shaped request: ${refused}`),
      h("div", { class: "sides head" }, h("b", {}, "received"), h("b", {}, "sent")),
      this.#pair("settings", settings),
      ...messages.map((pair) => this.#pair(`message ${pair.index}`, pair)),
      h("h3", {}, "Answer"),
      h("pre", { class: "text" }, answer || "–"),
    );
  }

  /** Messages that went out as they came are closed, so that the changed ones are seen. */
  #pair(name, { received, sent, changed }) {
    const same = h("p", { class: "faint" }, "the same");
    return h(
      "details",
      { class: changed ? "changed" : null, open: changed && name !== "settings" ? "" : null },
      h("summary", {}, name, changed ? " (changed)" : ""),
      h("div", { class: "sides" }, received === null ? h("p", { class: "faint" }, "added by the proxy") : h("pre", { class: "text" }, received), changed ? h("pre", { class: "text" }, sent ?? "not sent") : same),
    );
  }
}
