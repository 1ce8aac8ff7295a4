"""Which files a session will need next, from what it named, read and changed. Reads the store.

What earlier sessions changed together is known from their episodes, what files import from those
that sessions have in view, and what was committed together from whoever reads the repository. A
file is offered to a prompt only if it is likely: its name costs tokens in every turn.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.core.store.contract import Store
from ctxmgr.memory.learning.read_exchange import StoredTurn
from ctxmgr.memory.prediction.file_predictor import FilePredictor, SessionFiles
from ctxmgr.memory.prediction.paths import (
    PATH_CHARS_MAX,
    named_paths,
    normal_path,
    touched_paths,
)
from ctxmgr.memory.prediction.source_imports import imports_of
from ctxmgr.memory.records.bodies import Episode
from ctxmgr.memory.records.memory import Memory

SESSIONS_MAX: Final = 256
"""Sessions that are followed at once."""

CALLS_MAX: Final = 50
"""Calls of a turn that are read, the last ones."""

OUTPUT_CHARS_MAX: Final = 20_000
"""Of an output, in which names of files are looked for."""

SOURCES_MAX: Final = 10
"""Files in view whose imports are read after one turn."""

READ_MAX: Final = 10_000
"""Versions of files that are remembered as read."""

LIKELY: Final = 0.3
"""The probability from which a prompt names a file."""

SHOWN_MAX: Final = 3

_PATHS: Final = ("path", "file_path", "filePath", "filename", "notebook_path", "target_file")
_COMMANDS: Final = ("command", "cmd")


class FileForesight:
    """Follows the sessions of one project."""

    def __init__(self, store: Store, predictor: FilePredictor, *, root: str | None) -> None:
        """``root`` is the folder of the project on the host."""
        self._store = store
        self._predictor = predictor
        self._root = root
        self._sessions: dict[str, SessionFiles] = {}
        self._read: dict[tuple[str, str], None] = {}

    def recall(self, memories: Iterable[Memory]) -> None:
        """Learn from earlier sessions which files were changed together."""
        sessions: dict[str, list[Memory]] = {}
        for memory in memories:
            if isinstance(memory.body, Episode) and memory.origin.session_id is not None:
                sessions.setdefault(memory.origin.session_id, []).append(memory)
        for episodes in sessions.values():
            episodes.sort(key=lambda memory: (memory.origin.turn or 0, memory.id))
            order = [tag for each in episodes for tag in each.tags if not tag.startswith("@")]
            self._predictor.take_session([self._predictor.related.name(tag) for tag in order])

    async def note_turn(self, session_id: str, turn: StoredTurn) -> None:
        """Take in what a turn named and touched."""
        session = self._session(session_id)
        self._name(session, str(turn.get("user") or ""))
        for part in turn.get("assistant") or ():
            if not isinstance(part, Mapping):
                continue
            if part.get("type") == "text":
                self._name(session, str(part.get("text") or ""), by_agent=True)
            touched = [path for path in self._touched(part.get("args")) if _is_file_name(path)]
            if touched:
                session.touch(map(self._predictor.related.name, touched))
        calls = [str(call) for call in turn.get("toolcall_ids") or ()][-CALLS_MAX:]
        found = await self._store.get_many(calls) if calls else {}
        for version in found.values():
            content = version.document.get("content")
            if isinstance(content, str):
                self._name(session, content[:OUTPUT_CHARS_MAX])
        await self._read_sources(session_id)

    def next_files(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Return the files that a session will probably touch soon, each with the reason."""
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        return tuple(
            (each.path, each.why)
            for each in session.predict(SHOWN_MAX)
            if each.probability >= LIKELY
        )

    def end(self, session_id: str) -> None:
        """Learn from a session that paused."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    async def _read_sources(self, session_id: str) -> None:
        """Take in what the files that a session has in view import."""
        whole = session_object_id(session_id)
        stored = await self._store.get_many([whole], without=("session_index", "metadata_pool"))
        active = stored[whole].document.get("active_set") if whole in stored else None
        wanted = [str(each) for each in active][-SOURCES_MAX:] if isinstance(active, list) else []
        found = await self._store.get_many(wanted) if wanted else {}
        for object_id, version in found.items():
            path, content = _source_path(version.document), version.document.get("content")
            key = object_id, str(version.document.get("object_hash"))
            if path is None or not isinstance(content, str) or key in self._read:
                continue
            self._read[key] = None
            inside = self._inside(path)
            self._predictor.related.take_imports(inside, imports_of(inside, content))
        while len(self._read) > READ_MAX:
            del self._read[next(iter(self._read))]

    def _name(self, session: SessionFiles, text: str, *, by_agent: bool = False) -> None:
        names = map(self._predictor.related.name, named_paths(self._inside(text)))
        session.name(names, by_agent=by_agent)

    def _touched(self, args: Any) -> list[str]:
        """Return the files that a call is about."""
        if not isinstance(args, Mapping):
            return []
        paths, commands = (
            [self._inside(args[name]) for name in names if isinstance(args.get(name), str)]
            for names in (_PATHS, _COMMANDS)
        )
        return [*paths, *(path for command in commands for path in touched_paths(command))]

    def _inside(self, text: str) -> str:
        """Return a text in which paths begin below the project's folder."""
        if self._root is None:
            return text
        return "" if text == self._root else text.replace(f"{self._root}/", "")

    def _session(self, session_id: str) -> SessionFiles:
        session = self._sessions.pop(session_id, None) or self._predictor.begin_session()
        self._sessions[session_id] = session
        if len(self._sessions) > SESSIONS_MAX:
            self.end(next(iter(self._sessions)))
        return session


def _is_file_name(path: str) -> bool:
    """Whether a prompt may name it: not the project's own folder, nor a text in a path's place."""
    return bool(normal_path(path)) and len(path) <= PATH_CHARS_MAX and path.isprintable()


def _source_path(document: Mapping[str, Any]) -> str | None:
    source = document.get("source")
    path = source.get("path") if isinstance(source, Mapping) else None
    return path if document.get("type") == "file" and isinstance(path, str) else None
