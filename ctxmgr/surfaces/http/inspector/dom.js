// Elements, and human-readable numbers and times. Text is always set as text, never as HTML.

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

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const compact = (value) => short.format(value);
export const percent = (share) => `${Math.round(share * 100)} %`;

export const turnCount = (value) => `${number(value)} ${value === 1 ? "turn" : "turns"}`;

/** A moment in local time, to the second or, if exact, to the millisecond. */
export function time(instant, { exact = false } = {}) {
  if (instant === null || instant === undefined) return "–";
  const date = new Date(instant);
  const two = (value, digits = 2) => String(value).padStart(digits, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return exact ? `${day} ${clock}.${two(date.getMilliseconds(), 3)}` : `${day} ${clock}`;
}

/** Whether an id is a hash, as a file's is; a tool call's id is often readable. */
export const isHash = (id) => /^[0-9a-f]{64}$/.test(id);

/** The id, shortened if it is a hash. */
export const shortId = (id) => (isHash(id) ? `${id.slice(0, 10)}…` : id);

/** The sections of a prompt in order, with their display names. */
export const SECTIONS = {
  system_prompt: "system prompt",
  stable: "stable",
  epoch: "epoch",
  metadata_pool: "pool",
  chat: "chat",
  active_content: "active content",
  volatile: "volatile",
};

export const sectionName = (section) => SECTIONS[section] ?? section;

/** A small square in a section's colour. */
export const swatch = (section) => h("i", { class: `swatch ${section}`, "aria-hidden": "true" });
