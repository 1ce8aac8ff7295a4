// What went wrong, told at the edge of the page for a while.

import { h } from "./dom.js";

const NOTICE_MS = 12_000;
const NOTICES_MAX = 3;

/** Tell a person what went wrong, and what to do. */
export function fault(error) {
  console.warn(error);
  const notice = h("div", { class: "notice" }, h("b", {}, error.message), error.next ? h("span", {}, error.next) : null);
  const place = document.getElementById("notices");
  [...place.children].find((each) => each.textContent === notice.textContent)?.remove();
  place.append(notice);
  while (place.children.length > NOTICES_MAX) place.firstChild.remove();
  setTimeout(() => notice.remove(), NOTICE_MS);
}
