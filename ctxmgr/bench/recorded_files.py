"""Folders of recorded sessions, in the common form or as a harness wrote them. Reads files.

*.jsonl  *.jsonl.gz    the common form, a session a line
*.jsonl  *.json        one session in a format that ``messages.recordings`` knows
"""

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from ctxmgr.bench.recorded import RecordedSession, imported, read_session
from ctxmgr.errors import Incorrect
from ctxmgr.messages.recordings import read_recording

CALLS_MIN: Final = 3
"""Shorter sessions say nothing of economy."""


def read_folder(
    folder: Path, *, sessions_max: int | None = None
) -> dict[str, list[RecordedSession]]:
    """Read every file of a folder, by the file's name.

    Of a session that is there in the common form, its harness's own file is left.
    """
    if not folder.is_dir():
        raise Incorrect(f"{folder} is no folder of recorded sessions")
    found, others = {}, []
    for path in sorted([*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl")]):
        if not _is_common(path):
            others.append(path)
        elif sessions := list(_sessions(path, sessions_max)):
            found[_stem(path)] = sessions
    for path in [*others, *sorted(folder.glob("*.json"))]:
        if _stem(path) not in found:
            found.update(_imported(path))
    if not found:
        raise Incorrect(f"{folder} holds no recorded sessions: *.jsonl, *.jsonl.gz or *.json")
    return found


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _is_common(path: Path) -> bool:
    with _opened(path) as lines:
        try:
            return "messages" in json.loads(next(lines, "{}"))
        except ValueError as error:
            raise Incorrect(f"{path.name}, line 1: no recorded session: {error}") from error


def _imported(path: Path) -> dict[str, list[RecordedSession]]:
    try:
        recording = read_recording(path.read_bytes())
    except Incorrect as error:
        raise Incorrect(f"{path.name}: {error}") from error
    session = imported(recording, name=_stem(path))
    enough = len(session.turns) >= CALLS_MIN
    return {f"{recording.format}: {path.stem}": [session]} if enough else {}


def _sessions(path: Path, sessions_max: int | None) -> Iterator[RecordedSession]:
    with _opened(path) as lines:
        for number, line in enumerate(islice(lines, sessions_max), start=1):
            try:
                session = read_session(json.loads(line))
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
