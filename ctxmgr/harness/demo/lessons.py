"""The demo's notes: a topic tells the agent what to keep, and the next session knows it.

Writes to a folder of the demo and to a store of its own there: transcripts are made of every
session of a store, and the one that the demo was given may hold thousands.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from ctxmgr import connect
from ctxmgr.errors import ExtraMissing
from ctxmgr.harness.loop import work
from ctxmgr.harness.scripted_model import ScriptedModel, ScriptedPrompt, ScriptedReply, call
from ctxmgr.knowledge.library import Library

ASKED: Final = "The shop asks: what was wrong with the receipts?"
LATER: Final = "Somebody changes the receipts again. What should they know?"
LESSON: Final = "A discount is taken off the whole receipt, never off its items."

_MEMORY: Final = "knowledge/memory/MEMORY.md"
_INSTRUCTION: Final = "Keep the cause as a lesson, in one sentence."
_TOPIC: Final = f"""---
type: topic
description: What to do about the shop's receipts
triggers:
  - {{type: pattern, match: receipts}}
priority: critical
---

## Instructions

- {_INSTRUCTION}
"""


async def learn_a_lesson(folder: Path) -> tuple[Mapping[str, str], ...]:
    """Let the agent note a lesson, and start another session; nothing without the extra."""
    notes = folder / "knowledge-notes"
    (notes / "topics").mkdir(parents=True)
    (notes / "knowledge" / "memory").mkdir(parents=True)
    (notes / "topics" / "receipts.md").write_text(_TOPIC, encoding="utf-8")
    (notes / _MEMORY).write_text("# Memory\n\n## Lessons Learned\n", encoding="utf-8")
    try:
        library = Library.open(notes, raw=folder / "knowledge-raw", adopted=False)
    except ExtraMissing:
        return ()
    model = ScriptedModel("scripted", (_noted, ScriptedReply("The discount; I have noted it.")))
    async with connect(folder / "notes.db", knowledge=library, tracking=False) as client:
        first = await client.start(f"notes-{uuid4().hex[:8]}", system_prompt="You fix scripts.")
        await work(first, model=model, user=ASKED)
        second = await client.start(f"notes-{uuid4().hex[:8]}", system_prompt="You fix scripts.")
        prompt = await second.render(LATER)
        topics = {each.topic for each in (await library.compile(ASKED)).included if each.topic}
    written = _line_with(LESSON, (notes / _MEMORY).read_text(encoding="utf-8"))
    return (
        {"asked": "Which topic did the question activate?", "answer": ", ".join(sorted(topics))},
        {"asked": "What did the agent write to MEMORY.md?", "answer": written},
        {"asked": "What does a new session's prompt show?", "answer": _line_with(LESSON, prompt)},
    )


def _noted(seen: ScriptedPrompt) -> ScriptedReply:
    if _INSTRUCTION not in seen.text:
        return ScriptedReply("Nothing tells me to keep anything.")
    return ScriptedReply(
        "The receipts' topic says to keep the cause.",
        (call("note", text=LESSON, path=_MEMORY, section="Lessons Learned"),),
    )


def _line_with(text: str, whole: str) -> str:
    return next((line for line in whole.splitlines() if text in line), "nothing")
