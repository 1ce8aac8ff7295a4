// What is shown in place of something that does not exist.

import { h } from "../widgets/dom.js";

export function missing(message) {
  return h("div", { class: "missing page" }, h("h1", {}, message), h("p", {}, h("a", { href: "#/" }, "All sessions")));
}
