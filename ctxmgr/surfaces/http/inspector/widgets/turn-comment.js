// What a person wrote about a turn, and the form to write it. Hidden while there is neither.

import { post } from "../data/api.js";
import { h } from "./dom.js";

const LENGTH_MAX = 1_000; // in the worst case 4,000 bytes, which the server takes

export class TurnComment {
  constructor(session, { onFault }) {
    this.session = session;
    this.onFault = onFault;
    this.element = h("div", { class: "turn-comment", hidden: true });
  }

  /** Show the comment of a turn. A form that is open for it stays. */
  show(turn) {
    if (this.writing && turn === this.turn) return;
    this.turn = turn;
    this.writing = false;
    const comment = this.session.entry(turn)?.comment ?? null;
    this.element.hidden = comment === null;
    this.element.replaceChildren(h("p", {}, comment ?? ""), h("button", { type: "button", class: "quiet", onclick: () => this.write() }, "Edit"));
  }

  write() {
    const entry = this.session.entry(this.turn);
    if (!entry) return;
    this.writing = true;
    const text = h("textarea", { rows: 2, maxlength: LENGTH_MAX, "aria-label": "Comment on this turn" });
    text.value = entry.comment ?? "";
    const save = (event) => (event.preventDefault(), this.#save(entry.turn, text.value));
    this.element.replaceChildren(
      h("form", { onsubmit: save }, text, h("button", { type: "submit" }, "Save"), h("button", { type: "button", class: "quiet", onclick: () => this.#end() }, "Cancel")),
    );
    this.element.hidden = false;
    text.focus();
  }

  async #save(turn, text) {
    try {
      const { comment } = await post("/comment", { session: this.session.ref, turn, text });
      this.session.commented(turn, comment);
      if (turn === this.turn) this.#end();
    } catch (error) {
      this.onFault(error);
    }
  }

  #end() {
    this.writing = false;
    this.show(this.turn);
  }
}
