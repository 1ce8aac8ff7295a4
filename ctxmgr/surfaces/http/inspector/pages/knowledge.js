// The notes of the server's folder: their text and history, topics, what a prompt gets, and what waits.

import { TabbedPage } from "../widgets/tabbed-page.js";

const PANELS = [
  { name: "notes", label: "Notes", make: async () => (await import("../panels/notes.js")).NotesPanel },
  { name: "topics", label: "Topics", make: async () => (await import("../panels/topics.js")).TopicsPanel },
  { name: "compiled", label: "Compiled context", make: async () => (await import("../panels/compiled.js")).CompiledPanel },
  { name: "review", label: "Review", make: async () => (await import("../panels/review.js")).ReviewPanel },
];

export class KnowledgePage extends TabbedPage {
  constructor() {
    super("knowledge", "Knowledge", PANELS);
  }
}
