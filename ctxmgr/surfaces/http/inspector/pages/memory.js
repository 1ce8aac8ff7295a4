// What agents learnt: by tier, as it grew, what contradicts, and one memory on both time axes.

import { TabbedPage } from "../widgets/tabbed-page.js";

const PANELS = [
  { name: "tiers", label: "In a prompt", make: async () => (await import("../panels/tiers.js")).TiersPanel },
  { name: "all", label: "All", make: async () => (await import("../panels/memories.js")).MemoriesPanel },
  { name: "contradictions", label: "Contradictions", make: async () => (await import("../panels/contradictions.js")).ContradictionsPanel },
  { name: "one", label: "One memory", make: async () => (await import("../panels/memory.js")).MemoryPanel },
];

export class MemoryPage extends TabbedPage {
  constructor() {
    super("memory", "Memory", PANELS);
  }
}
