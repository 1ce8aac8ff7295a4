// Error notices, shown at the edge of the page for a few seconds.

import { h } from "./dom.js";

const NOTICE_MS = 12_000;
const NOTICES_MAX = 3;

/** Show what went wrong and what to do about it. */
export function fault(error) {
  console.warn(error);
  const notice = h("div", { class: "notice" }, h("b", {}, error.message), error.next ? h("span", {}, error.next) : null);
  const container = document.getElementById("notices");
  [...container.children].find((child) => child.textContent === notice.textContent)?.remove();
  container.append(notice);
  while (container.children.length > NOTICES_MAX) container.firstChild.remove();
  setTimeout(() => notice.remove(), NOTICE_MS);
}
