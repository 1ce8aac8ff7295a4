// Elements, and numbers and times as people read them. Texts are always set as texts, never as HTML.

/** Make an element: attributes and handlers by name, then children. */
export function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return made;
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const compact = (value) => short.format(value);
export const percent = (share) => `${Math.round(share * 100)} %`;

export const turnCount = (value) => `${number(value)} ${value === 1 ? "turn" : "turns"}`;

/** A moment in local time, to the millisecond where it matters. */
export function time(instant, { exact = false } = {}) {
  if (instant === null || instant === undefined) return "–";
  const date = new Date(instant);
  const two = (value, digits = 2) => String(value).padStart(digits, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return exact ? `${day} ${clock}.${two(date.getMilliseconds(), 3)}` : `${day} ${clock}`;
}

/** A file's id says nothing to a person; a tool call's often does. */
export const isHash = (id) => /^[0-9a-f]{64}$/.test(id);

/** An id that is a hash, in short. */
export const shortId = (id) => (isHash(id) ? `${id.slice(0, 10)}…` : id);

/** Sections of a prompt in its order, each with the name people read. */
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
