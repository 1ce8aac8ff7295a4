"""Errors with the change that made the same command pass. Pure.

    pytest -q fails ─► the error is noted ─► files change ─► pytest -q passes ─► an error fix

A failure is kept until its command passes, also into later exchanges of the session. Without a
change in between nothing was learnt: the failure was a matter of luck, or fixed elsewhere.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ctxmgr.memory.extraction.exchange import Exchange, ToolRun
from ctxmgr.memory.extraction.findings import (
    ExtractorResult,
    LearntItem,
    RefusedItem,
    as_line,
    file_tags,
    refused,
)
from ctxmgr.memory.extraction.tool_runs import (
    PATCHED,
    REWRITTEN,
    WRITTEN,
    RunChange,
    changes_of,
    command_of,
    error_of,
    has_failed,
    only_looks,
    same_command,
)
from ctxmgr.memory.records.bodies import HINT_CHARS_MAX, Artifact, ArtifactType, Episode
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "error_fixes"

FAILURES_MAX: Final = 20
"""Failed commands of a session that are waited for; the oldest is given up."""
CHANGES_MAX: Final = 30
"""Changes since a failure that are kept, the last ones."""
CHANGES_SHOWN: Final = 3
EDITS_SHOWN: Final = 2
"""Of one file."""
COMMAND_CHARS_SHOWN: Final = 100

_SLIP: Final = re.compile(r"^(?:\w*\.)*(?:IndentationError|TabError|SyntaxError)\b")
_SCRATCH: Final = re.compile(
    r"(?:repro|tmp|temp|debug|fix|update|patch|apply|modify|edit|check|verify|script|scratch|try"
    r"|replace|insert|add_|rewrite|demo|example_|play|new_test|my_|simple_test"
    r"|test_(?:fix|issue|repro|bug|patch|final))",
    re.IGNORECASE,
)
"""How files and folders are called that somebody made to try something out."""
_DELETES: Final = re.compile(r"sed (?:.*/|[\d,$]*)d|sed \d*r \S+")
"""Lines that are deleted again, or come from another file: what was changed is not to be seen."""
_UNTOLD: Final = frozenset({WRITTEN, REWRITTEN, PATCHED})
_TEMPORARY: Final = ("/tmp/", "/var/tmp/")  # noqa: S108 (compared, not opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFailure:
    """A command that failed and has not passed since."""

    command: str
    error: str
    turn: int
    object_id: str
    object_hash: str | None
    changes: tuple[RunChange, ...] = ()

    def changed(self, changes: Sequence[RunChange]) -> Self:
        return replace(self, changes=(*self.changes, *changes)[-CHANGES_MAX:])

    def to_value(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "error": self.error,
            "turn": self.turn,
            "object_id": self.object_id,
            "object_hash": self.object_hash,
            "changes": [[change.path, change.summary] for change in self.changes],
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            command=str(value["command"]),
            error=str(value["error"]),
            turn=int(value["turn"]),
            object_id=str(value["object_id"]),
            object_hash=value["object_hash"],
            changes=tuple(
                RunChange(path=str(path), summary=str(summary))
                for path, summary in value["changes"]
            ),
        )


def extract_error_fixes(
    exchange: Exchange, failures: tuple[OpenFailure, ...] = ()
) -> tuple[ExtractorResult, tuple[OpenFailure, ...]]:
    """Return what was fixed, and the failures that are still open."""
    learnt: list[LearntItem] = []
    turned_down: list[RefusedItem] = []
    waiting = {failure.command: failure for failure in failures}
    for run in exchange.runs:
        command = command_of(run)
        name = None if command is None or only_looks(command) else same_command(command)
        if name and has_failed(run):
            failed = _failure(run, name, waiting.get(name))
            if isinstance(failed, str):
                turned_down.append(refused(name, failed, extractor=NAME, turn=run.turn))
            else:
                waiting[name] = failed
        elif name and (fixed := waiting.pop(name, None)) is not None:
            read = _fix(fixed, run)
            if isinstance(read, str):
                turned_down.append(refused(fixed.error, read, extractor=NAME, turn=run.turn))
            else:
                learnt.append(read)
        changes = changes_of(run)
        if changes:
            waiting = {key: failure.changed(changes) for key, failure in waiting.items()}
    kept = tuple(waiting.values())[-FAILURES_MAX:]
    return ExtractorResult(learnt=tuple(learnt), refused=tuple(turned_down)), kept


def _failure(run: ToolRun, command: str, before: OpenFailure | None) -> OpenFailure | str:
    """Return the failure to wait for: another error than before is a new one, without changes."""
    error = error_of(run.output)
    if error is None:
        return "the output names no error"
    if before is not None and before.error == error:
        return before
    return OpenFailure(
        command=command,
        error=error,
        turn=run.turn,
        object_id=run.object_id,
        object_hash=run.object_hash,
    )


def _fix(failure: OpenFailure, run: ToolRun) -> LearntItem | str:
    if not failure.changes:
        return "the command passed without a change"
    if error_of(run.output) == failure.error:
        return "the command passed and still reports the error"
    if _SLIP.search(failure.error):
        return "a slip of the pen, not an error to remember"
    if any(_runs(failure, change) for change in failure.changes):
        return "what the command runs was changed, too"
    changes = _telling(failure)
    if not any(_tells(change, failure) for change in changes):
        return "only scratch files were changed, or nothing says what was changed"
    shown = as_line(failure.command, COMMAND_CHARS_SHOWN)
    paths = file_tags(tuple(change.path for change in changes if change.path))
    narrative = (
        f"`{failure.command}` failed in turn {failure.turn}: {failure.error}\n"
        + "".join(f"changed {change.path or 'the setup'}: {change.summary}\n" for change in changes)
        + f"it passed in turn {run.turn}"
    )
    return LearntItem(
        body=Episode(
            title=as_line(f"{failure.error} ({shown})", HINT_CHARS_MAX),
            full_narrative=narrative,
            problem=f"`{shown}` failed: {failure.error}",
            fix="; ".join(_shown(change) for change in changes[:CHANGES_SHOWN]),
            outcome=f"`{shown}` passed",
            artifacts=tuple(
                Artifact(artifact_type=ArtifactType.FILE, artifact_ref=path) for path in paths
            ),
        ),
        kind=MemoryKind.ERROR_FIX,
        original=narrative,
        extractor=NAME,
        turn=run.turn,
        object_id=failure.object_id,
        object_hash=failure.object_hash,
        tags=paths,
    )


def _telling(failure: OpenFailure) -> list[RunChange]:
    """Return the changes that can have fixed an error, those in files that it names first.

    Files that were made to try something out fix nothing.
    """
    places: dict[str, list[RunChange]] = {}
    for change in failure.changes:
        if _undoes(change) or _is_scratch(change, failure):
            continue
        places.setdefault(change.path or change.summary, []).append(change)
    joined = [
        RunChange(
            path=made[-1].path,
            summary=", ".join(list(dict.fromkeys(each.summary for each in made))[-EDITS_SHOWN:]),
        )
        for made in places.values()
    ]
    return sorted(
        joined,
        key=lambda change: (
            bool(change.path) and change.path.rsplit("/", maxsplit=1)[-1] not in failure.error,
            change.summary == WRITTEN,
        ),
    )


def _shown(change: RunChange) -> str:
    return f"{change.path}: {change.summary}" if change.path else change.summary


def _is_scratch(change: RunChange, failure: OpenFailure) -> bool:
    """Whether a file was made to try something out."""
    path = change.path
    if path.startswith(_TEMPORARY) or any(map(_SCRATCH.match, path.split("/"))):
        return True
    alone = "/" not in path and path not in failure.error
    return bool(path) and alone and change.summary == WRITTEN


def _undoes(change: RunChange) -> bool:
    """Whether a change takes back an earlier one: git restores it, or lines are deleted again."""
    restored = not change.path and change.summary.startswith("git ")
    return restored or _DELETES.fullmatch(change.summary) is not None


def _tells(change: RunChange, failure: OpenFailure) -> bool:
    """Whether the summary of a change says what was changed, or its file is what was missing."""
    if change.summary not in _UNTOLD:
        return True
    name = change.path.rsplit("/", maxsplit=1)[-1].rsplit(".", maxsplit=1)[0]
    return bool(name) and name in failure.error


def _runs(failure: OpenFailure, change: RunChange) -> bool:
    """Whether a change is one of the script or the tests that the command runs."""
    name = change.path.rsplit("/", maxsplit=1)[-1].rsplit(".", maxsplit=1)[0]
    return bool(name) and re.search(rf"\b{re.escape(name)}\b", failure.command) is not None
