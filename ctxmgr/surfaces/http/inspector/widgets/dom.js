// Elements. Text is always set as text, never as HTML.

/** Create an element: attributes and handlers by name, then children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A small square in the colour of a kind of text, or of a state of the cache. */
export const swatch = (kind) => h("i", { class: `swatch ${kind}`, "aria-hidden": "true" });

/** Grey lines in place of what is being loaded. */
export function skeleton(lines = 6) {
  const rows = Array.from({ length: lines }, (_, at) => {
    const line = h("i", {});
    line.style.width = `${[82, 64, 73, 48, 90, 57][at % 6]}%`;
    return line;
  });
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, ...rows);
}

/** A button that copies a text; it says so for a moment. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "quiet", onclick: copy }, label);
  async function copy(event) {
    event.preventDefault();
    event.stopPropagation();
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), COPIED_MS);
  }
  return button;
}

const COPIED_MS = 1_500;

/** Two or more buttons of which one is chosen. */
export function choice(options, { chosen, label, onChoose }) {
  const buttons = options.map(([name, text]) =>
    h("button", { type: "button", "data-choice": name, "aria-pressed": String(name === chosen), onclick: (event) => choose(event, name) }, text),
  );
  function choose(event, name) {
    event.preventDefault();
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.choice === name)));
    onChoose(name);
  }
  return h("span", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}
