// Notes by category; of one note its text, its history with every earlier state, and where each line
// came from.
//
//   #/knowledge/notes/PATH/VIEW/COMMIT      VIEW is text, history or blame

import { address } from "../data/address.js";
import { get, getAll } from "../data/api.js";
import { count, when } from "../data/words.js";
import { diffView } from "../widgets/diff-view.js";
import { choice, h, skeleton } from "../widgets/dom.js";
import { markdown } from "../widgets/markdown.js";
import { plainTable } from "../widgets/plain-table.js";
import { refused } from "../widgets/tabbed-page.js";

const LISTED_MAX = 500;
const COMMITS_SHOWN = 100;
const COMMIT_CHARS = 10;
const VIEWS = [["text", "Text"], ["history", "History"], ["blame", "Where from"]];

export const toNote = (path, view = "", commit = "") => address("knowledge", "notes", path, view, commit);

export class NotesPanel {
  constructor() {
    this.filter = h("input", { type: "search", placeholder: "Filter notes", "aria-label": "Filter notes", oninput: () => this.#list() });
    this.list = h("div", { class: "note-list" }, skeleton(8));
    this.note = h("article", { class: "note", "aria-label": "Note" }, h("p", { class: "faint" }, "Choose a note."));
    this.element = h("div", { class: "layer-columns" }, h("section", { "aria-label": "Notes" }, h("div", { class: "filter" }, this.filter), this.list), this.note);
  }

  async show([path, view = "text", commit]) {
    Object.assign(this, { path, view });
    if (!this.notes) {
      this.notes = await getAll("/v1/knowledge/list", "notes");
      this.#list();
    }
    if (path) await this.#open(path, view, commit);
  }

  #list() {
    if (!this.notes) return;
    const words = this.filter.value.toLowerCase();
    const found = this.notes.filter(({ path, title }) => `${path} ${title}`.toLowerCase().includes(words));
    const groups = Object.groupBy(found.slice(0, LISTED_MAX), ({ category }) => category);
    this.list.replaceChildren(
      ...(found.length ? [] : [h("p", { class: "faint" }, "No note matches.")]),
      ...Object.entries(groups).map(([category, notes]) => h("div", {}, h("h3", {}, category), ...notes.map(({ path, title }) => h("a", { class: "note-row", href: toNote(path), title: path }, title)))),
      ...(found.length > LISTED_MAX ? [h("p", { class: "faint" }, `${count(found.length - LISTED_MAX, "note")} more: filter them.`)] : []),
    );
  }

  async #open(path, view, commit) {
    const turn = (this.opening = {});
    const body = h("div", {}, skeleton(6));
    const views = choice(VIEWS, { chosen: view, label: "View", onChoose: (name) => (location.hash = toNote(path, name)) });
    this.note.replaceChildren(h("header", { class: "note-head" }, h("h2", {}, path), views), body);
    try {
      const shown = await (view === "history" ? history(path, commit) : view === "blame" ? blame(path) : text(path));
      if (turn === this.opening) body.replaceChildren(...shown);
    } catch (error) {
      if (turn === this.opening) body.replaceChildren(refused(error));
    }
  }
}

async function text(path) {
  const note = await get("/v1/knowledge/note", { path });
  const about = [note.category, note.type, ...note.tags.map((tag) => `#${tag}`)].filter(Boolean).join(", ");
  const links = note.links.length ? [h("p", { class: "faint" }, "links to ", ...note.links.flatMap((link, at) => [at ? ", " : "", h("a", { href: toNote(link) }, link)]))] : [];
  return [h("p", { class: "faint" }, about), ...links, markdown(note.text)];
}

/** The commits of a note; with one of them, the note as it was then and what the commit changed. */
async function history(path, commit) {
  const { commits } = await get("/v1/knowledge/log", { path, limit: COMMITS_SHOWN });
  const rows = commits.map((each) => [
    when(Date.parse(each.time)),
    h("a", { href: toNote(path, "history", each.commit) }, each.commit.slice(0, COMMIT_CHARS)),
    each.summary,
    each.author,
    each.session ?? "–",
  ]);
  const listed = plainTable(["when", "commit", "summary", "author", "from conversation"], rows, { label: "Commits", empty: "The note is not committed yet." });
  if (!commit) return [listed];
  const before = commits[commits.findIndex((each) => each.commit === commit) + 1]?.commit;
  const [then, changes] = await Promise.all([
    get("/v1/knowledge/show", { path, at: commit }),
    before ? get("/v1/knowledge/diff", { before, after: commit }) : null,
  ]);
  const first = "The first commit of the note.";
  return [listed, h("h3", {}, `As of ${commit.slice(0, COMMIT_CHARS)}`), h("pre", { class: "then" }, then.text), h("h3", {}, "Changed since the commit before"), diffView(changes ? partOf(changes.diff, path) : "", { same: first })];
}

/** The part of a diff that is about one file. */
function partOf(diff, path) {
  return diff.split(/^(?=diff --git )/m).filter((part) => part.split("\n", 1)[0].endsWith(` b/${path}`)).join("");
}

async function blame(path) {
  const { lines } = await get("/v1/knowledge/blame", { path });
  const rows = lines.map((line) => [
    String(line.line),
    h("code", {}, line.text),
    when(Date.parse(line.time)),
    h("a", { href: toNote(path, "history", line.commit), title: line.commit }, line.summary),
    line.session ?? "–",
  ]);
  return [plainTable(["#line", "text", "since", "commit", "from conversation"], rows, { label: "Where each line came from", empty: "The note is empty." })];
}
