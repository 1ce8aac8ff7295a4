// Changes of identity and topics that wait for a person: the diff, who proposed it and why.

import { post } from "../data/api.js";
import { count, when } from "../data/words.js";
import { diffView } from "../widgets/diff-view.js";
import { h, skeleton } from "../widgets/dom.js";
import { fault } from "../widgets/notices.js";
import { toNote } from "./notes.js";

const PATH = "/v1/knowledge/review";

export class ReviewPanel {
  constructor() {
    this.element = h("div", {}, skeleton(6));
  }

  async show() {
    const { proposals, total } = await post(PATH, {});
    const rest = total - proposals.length;
    this.element.replaceChildren(
      h("p", { class: "faint", role: "status" }, total ? `${count(total, "change")} of identity and topics waiting. Agents and extractors cannot make them by themselves.` : "Nothing waits for you."),
      ...proposals.map((proposal) => this.#card(proposal)),
      ...(rest ? [h("p", { class: "faint" }, `${count(rest, "change")} more: decide about these first, and open this page again.`)] : []),
    );
  }

  #card(proposal) {
    const button = (label, decision) => h("button", { type: "button", onclick: () => this.#decide(card, proposal, decision) }, label);
    const card = h(
      "article",
      { class: "card proposal", "aria-label": `Proposal ${proposal.id}` },
      h("header", { class: "note-head" }, h("h2", {}, h("a", { href: toNote(proposal.path) }, proposal.path)), h("span", {}, button("Accept", { accept: true }), " ", button("Reject", { reject: true }))),
      h("p", {}, proposal.reason),
      h("p", { class: "faint" }, `${proposal.origin}, `, when(Date.parse(proposal.proposed))),
      diffView(proposal.diff),
    );
    return card;
  }

  /** Decide about a proposal; a note that changed meanwhile stays, and the server says so. */
  async #decide(card, proposal, decision) {
    const buttons = card.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      const { proposals } = await post(PATH, { proposal: proposal.id, ...decision });
      card.replaceChildren(h("p", { role: "status" }, `${proposal.path}: ${proposals[0].state}`));
    } catch (error) {
      buttons.forEach((button) => (button.disabled = false));
      fault(error);
    }
  }
}
