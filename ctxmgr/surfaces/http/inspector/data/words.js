// Numbers, times, money and names as people read them.

import { h } from "../widgets/dom.js";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const compact = (value) => short.format(value);
export const percent = (part, all) => `${all ? Math.round((100 * part) / all) : 0} %`;

/** "1 break", "2 breaks". */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

/** US dollars, with more digits for small amounts. */
export function money(usd) {
  if (usd === null || usd === undefined) return "–";
  const digits = usd >= 10 || usd === 0 ? 2 : usd >= 0.01 ? 3 : 5;
  return `$${usd.toFixed(digits)}`;
}

/** A duration in milliseconds. */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60_000) / 1_000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const two = (value, digits = 2) => String(value).padStart(digits, "0");

/** The name of the local time zone at a moment. */
export function zone(instant = Date.now()) {
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(new Date(instant));
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "";
}

/** A moment in local time with its zone, to the second or, if exact, to the millisecond. */
export function timeText(instant, { exact = false, withZone = true } = {}) {
  if (instant === null || instant === undefined) return "–";
  const date = new Date(instant);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const fraction = exact ? `.${two(date.getMilliseconds(), 3)}` : "";
  return `${day} ${clock}${fraction}${withZone ? ` ${zone(instant)}` : ""}`;
}

/** The same as an element that says the time in UTC when hovered over. */
export function when(instant, options = {}) {
  if (instant === null || instant === undefined) return h("span", {}, "–");
  const utc = new Date(instant).toISOString();
  return h("time", { datetime: utc, title: utc.replace("T", " ").replace("Z", " UTC") }, timeText(instant, options));
}

/** Whether an id is a hash, as a file's is; a tool call's id is often readable. */
export const isHash = (id) => /^[0-9a-f]{64}$/.test(id);

/** The id, shortened if it is a hash. */
export const shortId = (id) => (isHash(id) ? `${id.slice(0, 10)}…` : id);

/** What the pieces of a prompt show, in the order of a bar, with their names. */
export const KINDS = {
  system: "system prompt",
  layer: "added by layers",
  listed: "metadata, one line each",
  file: "files",
  output: "tool outputs",
  folded: "folded",
  digest: "digests of old calls",
  notice: "notices",
  summary: "summary of old turns",
  user: "user",
  assistant: "assistant",
};

/** Whether some of a piece's text is hidden. */
export const isShortened = (block) => block.shows === "folded" || block.shows === "digest";

export const kindName = (kind) => KINDS[kind] ?? kind;

const BEGINNING = 120;

/** The name of a piece: a path, a tool with its argument, or the beginning of its text. */
export function pieceName(block) {
  if (block.kind === "toolcall" && block.name) return [block.name, block.argument].filter(Boolean).join(" ");
  if (block.shows === "notice" || block.shows === "summary") return firstLine(block.text).replace(/^user: /, "");
  if (block.kind === "file") return block.name;
  if (block.shows === "system") return "System prompt";
  return firstLine(block.text).replace(/^(user|assistant): /, "");
}

const firstLine = (text) => text.slice(0, BEGINNING).split("\n", 1)[0];
