"""Procedures: numbered steps, and commands that were run again and again. No I/O."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from ctxmgr.core.model import Flow
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    ENTRIES_MAX,
    Extraction,
    ExtractionSource,
    asked,
    change,
    turn_of,
)
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import (
    ChangeAction,
    KnowledgeChange,
    slug,
)
from ctxmgr.knowledge.notes.sections import one_line, outside_code
from ctxmgr.knowledge.transcripts.transcript import ToolLine, TranscriptTurn

STEPS_MIN: Final = 3
REPEATS_MIN: Final = 3
"""Times that a command succeeded before it counts as a habit."""
COMMANDS: Final = "knowledge/procedures/commands.md"

_STEP: Final = re.compile(r"\s{0,3}(\d{1,2})[.)]\s+(\S.*)")
_COMMAND: Final = re.compile(r"(?:command|cmd)=(.+)")
_TRIVIAL: Final = re.compile(
    r"(?:ls|cd|pwd|cat|head|tail|grep|rg|find|echo|git (?:status|diff|log))\b"
)


class ProcedureExtractor:
    """Finds numbered steps with a title, and repeated commands."""

    name = "procedures"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        count = 0
        for number, turn in enumerate(source.transcript.turns, start=1):
            for title, steps in _lists(turn):
                name = slug(title)
                if not name or count >= ENTRIES_MAX:
                    continue
                count += 1
                yield change(
                    self,
                    source,
                    path=f"knowledge/procedures/{name}.md",
                    section="Steps",
                    content="\n".join(steps),
                    turn=number,
                    action=ChangeAction.CREATED,
                )
        yield from self._commands(source)

    def _commands(self, source: ExtractionSource) -> Iterator[KnowledgeChange]:
        runs: Counter[str] = Counter()
        last: dict[str, int] = {}
        for number, turn in enumerate(source.transcript.turns, start=1):
            for block in turn.blocks:
                if isinstance(block, ToolLine) and block.result.startswith("ok"):
                    found = _COMMAND.match(block.summary)
                    if found and not found[1].endswith("…") and not _TRIVIAL.match(found[1]):
                        runs[found[1]] += 1
                        last[found[1]] = number
        for command, times in runs.items():
            if times >= REPEATS_MIN:
                yield change(
                    self,
                    source,
                    path=COMMANDS,
                    section="Commands",
                    content=f"`{command.replace('`', '')}`",
                    turn=last[command],
                )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        def read(entry: dict[str, str]) -> KnowledgeChange | None:
            name = slug(entry["title"])
            if not name or not entry["steps"]:
                return None
            return change(
                self,
                source,
                path=f"knowledge/procedures/{name}.md",
                section="Steps",
                content="\n".join(entry["steps"].split(" ; ")),
                turn=turn_of(source, entry["steps"]),
                action=ChangeAction.CREATED,
            )

        return asked(
            self,
            source,
            wanted="List procedures that were worked out and will be needed again, each as an"
            ' object with the texts "title" and "steps" (the steps, separated by " ; ").',
            fields=("title", "steps"),
            read=read,
        )


def _lists(turn: TranscriptTurn) -> Iterator[tuple[str, list[str]]]:
    """Yield numbered lists that count from 1, each with the line before it as its title."""
    title = ""
    steps: list[str] = []
    for _, line in [*outside_code(turn.text), (0, "")]:
        step = _STEP.fullmatch(line)
        if step and int(step[1]) == len(steps) + 1:
            steps.append(one_line(step[2]))
            continue
        if not line.strip() and steps and line != "":
            continue
        if len(steps) >= STEPS_MIN and title:
            yield title, steps
        if steps:
            title, steps = "", []
        if line.strip():
            title = one_line(line).strip("#*: .")[:80]
