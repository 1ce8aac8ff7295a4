"""Folders of recorded sessions: one JSON object a line, in ``*.jsonl`` or ``*.jsonl.gz``."""

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from ctxmgr.bench.recorded import RecordedSession, read_session
from ctxmgr.errors import Incorrect

CALLS_MIN: Final = 3
"""Shorter sessions say nothing of economy."""


def read_folder(
    folder: Path, *, sessions_max: int | None = None
) -> dict[str, list[RecordedSession]]:
    """Read every file of a folder that holds sessions in the common form, by the file's name."""
    if not folder.is_dir():
        raise Incorrect(f"{folder} is no folder of recorded sessions")
    found = {}
    for path in sorted([*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl")]):
        sessions = list(_sessions(path, sessions_max))
        if sessions:
            found[path.name.partition(".")[0]] = sessions
    if not found:
        raise Incorrect(f"{folder} holds no recorded sessions: *.jsonl or *.jsonl.gz")
    return found


def _sessions(path: Path, sessions_max: int | None) -> Iterator[RecordedSession]:
    with _opened(path) as lines:
        for number, line in enumerate(islice(lines, sessions_max), start=1):
            try:
                value = json.loads(line)
                if "messages" not in value:
                    return  # another format: pi's own, for one
                session = read_session(value)
            except (ValueError, KeyError, TypeError) as error:
                raise Incorrect(
                    f"{path.name}, line {number}: no recorded session: {error}"
                ) from error
            if len(session.turns) >= CALLS_MIN:
                yield session


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
