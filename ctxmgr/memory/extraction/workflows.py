"""Workflows: commands that were run in the same order again and again. Pure.

    npm run build, git commit, git push      in three exchanges: a workflow of three steps

A command counts by its first words, without its arguments. Commands that only look something up are
left out.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias

from ctxmgr.memory.extraction.exchange import Exchange
from ctxmgr.memory.extraction.findings import ExtractorResult, LearntItem, as_line
from ctxmgr.memory.extraction.tool_runs import command_of, has_failed, only_looks, same_command
from ctxmgr.memory.records.bodies import HINT_CHARS_MAX, KEY_CHARS_MAX, Workflow
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "workflows"

REPEATS_MIN: Final = 3
"""Exchanges in which a sequence has to occur: twice is a coincidence."""
STEPS_MIN: Final = 2
STEPS_MAX: Final = 6
COMMANDS_MAX: Final = 20
"""Of one exchange that are compared, the last ones."""
EXCHANGES_MAX: Final = 100
"""Earlier exchanges that are compared."""

CommandSequence: TypeAlias = tuple[str, ...]

_GIT: Final = re.compile(r"git\s+(?:-C\s+\S+\s+)?(commit|push|tag|merge|rebase|pull|add)\b")
_RUNNERS: Final = frozenset(
    {"npm", "pnpm", "yarn", "cargo", "make", "go", "uv", "docker", "poetry"}
)
_MODULE: Final = frozenset({"python", "python3"})
_NAME: Final = re.compile(r"[A-Za-z][\w.:/@-]*")


def command_sequence(exchange: Exchange) -> CommandSequence:
    """Return the commands of an exchange that did something, without repeating the last one."""
    found: list[str] = []
    for run in exchange.runs:
        command = command_of(run)
        if command is None or has_failed(run) or "<<" in command:
            continue
        for part in re.split(r"&&|;|\n", same_command(command)):
            name = _name(part.strip())
            if name is not None and found[-1:] != [name]:
                found.append(name)
    return tuple(found[-COMMANDS_MAX:])


def extract_workflows(
    exchange: Exchange, earlier: Sequence[CommandSequence]
) -> tuple[ExtractorResult, tuple[CommandSequence, ...]]:
    """Return workflows that have become habits, and the sequences to compare later ones with."""
    sequence = command_sequence(exchange)
    if len(sequence) < STEPS_MIN:
        return ExtractorResult(), tuple(earlier)
    known = (*earlier, sequence)[-EXCHANGES_MAX:]
    counts: dict[CommandSequence, int] = defaultdict(int)
    for one in known:
        for part in _parts(one):
            counts[part] += 1
    habits = [part for part in _parts(sequence) if counts[part] >= REPEATS_MIN]
    longest = [part for part in habits if not any(_contains(other, part) for other in habits)]
    learnt = tuple(_workflow(exchange, steps, counts[steps]) for steps in longest)
    return ExtractorResult(learnt=learnt), known


def _name(part: str) -> str | None:
    """Return the words by which a command is known; None if it is not worth a step."""
    if (git := _GIT.match(part)) is not None:
        return f"git {git[1]}"
    words = part.split()
    if not words or only_looks(part) or _NAME.fullmatch(words[0]) is None:
        return None
    if words[0] in _RUNNERS:
        named = [word for word in words[1:] if _NAME.fullmatch(word)]
        return " ".join((words[0], *named[: 2 if named[:1] == ["run"] else 1]))
    if words[0] in _MODULE:
        return (
            f"{words[0]} -m {words[2]}" if words[1:2] == ["-m"] and len(words) > STEPS_MIN else None
        )
    return words[0]


def _parts(sequence: CommandSequence) -> set[CommandSequence]:
    """Return the runs of different commands in a sequence."""
    return {
        sequence[start : start + length]
        for length in range(STEPS_MIN, STEPS_MAX + 1)
        for start in range(len(sequence) - length + 1)
        if len(set(sequence[start : start + length])) == length
    }


def _contains(longer: CommandSequence, shorter: CommandSequence) -> bool:
    return len(longer) > len(shorter) and any(
        longer[start : start + len(shorter)] == shorter
        for start in range(len(longer) - len(shorter) + 1)
    )


def _workflow(exchange: Exchange, steps: CommandSequence, times: int) -> LearntItem:
    listed = ", then ".join(steps)
    return LearntItem(
        body=Workflow(
            name=as_line(f"{steps[0]} to {steps[-1]}", KEY_CHARS_MAX),
            trigger=as_line(f"before {steps[-1]}", HINT_CHARS_MAX),
            steps=tuple(as_line(step, HINT_CHARS_MAX) for step in steps),
            hint=as_line(listed, HINT_CHARS_MAX),
        ),
        kind=MemoryKind.NOTE,
        original=f"{listed} ({times} times)",
        extractor=NAME,
        turn=exchange.last_turn,
    )
