"""The objects of an open session in memory: one line each, and the active texts. Pure.

    objects   object → its line in the pool, the version shown, and its reference in the chat
    blocks    active object → its full text

Texts of objects that are not active are dropped, so that memory holds the active texts and one line
per object of the pool. What is shown is decided by the session's sets, not here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.context.assembly import ActiveBlock, Pool, PoolEntry
from ctxmgr.core.context.lines import file_content
from ctxmgr.core.history.turn_records import ShownVersion
from ctxmgr.core.objects.answers import CallRef
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.sets import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedObject:
    """One content object without its text."""

    entry: PoolEntry
    shown: ShownVersion
    call: CallRef | None = None
    """Tool calls only."""
    chat_ref: str | None = None
    """Tool calls only: the chat that it belongs to."""
    state: FileState | None = None
    """Files only."""
    char_count: int = 0


class ObjectCache:
    """The objects of one session, in the versions that were last read or stored."""

    def __init__(self) -> None:
        self._objects: dict[str, CachedObject] = {}
        self._texts: dict[str, str] = {}
        """Of the active objects."""
        self._blocks: dict[str, ActiveBlock] = {}
        """Of the active objects that were shown in full; under a policy there are none."""
        self._pool = Pool()
        self._shown: AppendOnly[ShownVersion] = AppendOnly()
        """The versions of the pool's objects, in its order."""
        self._complete = 0
        """The number of objects at the beginning of the pool that are cached."""
        self._changed = False
        self._reordered = False

    def __contains__(self, object_id: object) -> bool:
        return object_id in self._objects

    def get(self, object_id: str) -> CachedObject | None:
        """Return an object; None if it is not cached."""
        return self._objects.get(object_id)

    def call(self, object_id: str) -> CallRef | None:
        cached = self._objects.get(object_id)
        return cached.call if cached else None

    def learn_file(self, file: File, *, display_path: str, state: FileState, active: bool) -> None:
        """Add a version of a file; its text is kept only if it is active."""
        entry = PoolEntry.of_file(file, display_path=display_path, state=state)
        shown = ShownVersion.of(file, display_path=display_path, state=state)
        cached = CachedObject(entry=entry, shown=shown, state=state, char_count=file.char_count)
        self._learn(cached, file_content(file, state=state) if active else None)

    def learn_call(self, toolcall: ToolCall, *, active: bool) -> None:
        """Add a tool call; its output is kept only if it is active."""
        cached = CachedObject(
            entry=PoolEntry.of_toolcall(toolcall),
            shown=ShownVersion.of(toolcall),
            call=CallRef.of(toolcall),
            chat_ref=toolcall.chat_ref,
            char_count=len(toolcall.content or ""),
        )
        self._learn(cached, (toolcall.content or "") if active else None)

    def reorder(self) -> None:
        """Note that the order of the pool may have changed, by a merge with another client."""
        self._reordered = True
        self._complete = 0

    def missing(self, session: Session) -> list[str]:
        """Return the ids of objects that must be read before the session can be shown."""
        new = session.metadata_pool.in_order[self._complete :]
        missing = [object_id for object_id in new if object_id not in self._objects]
        if not missing:
            self._complete = len(session.metadata_pool)
        missing += [object_id for object_id in session.active_set if object_id not in self._texts]
        return list(dict.fromkeys(missing))

    def pool(self, session: Session) -> Pool:
        """Return the pool. Only new lines are added, unless an earlier one has changed."""
        self._update_pool(session)
        return self._pool

    def active(self, session: Session) -> tuple[ActiveBlock, ...]:
        """Return the texts of the active objects, in order."""
        for object_id in session.active_set:
            if object_id not in self._blocks:
                self._blocks[object_id] = ActiveBlock(object_id, self._texts[object_id])
        return tuple(self._blocks[object_id] for object_id in session.active_set)

    def content(self, object_id: str) -> str | None:
        """Return the text of an active object; None if it is not cached."""
        return self._texts.get(object_id)

    def shown_as(self, path: str) -> list[str]:
        """Return the ids of the files that are shown under a path."""
        return [
            object_id
            for object_id, cached in self._objects.items()
            if cached.shown.display_path == path
        ]

    def let_go(self, session: Session) -> None:
        """Drop the texts of objects that are not active any more."""
        for object_id in [key for key in self._texts if key not in session.active_set]:
            del self._texts[object_id]
            self._blocks.pop(object_id, None)

    def shown(self, session: Session) -> AppendOnly[ShownVersion]:
        """Return the versions that the pool shows, in its order; as cheap as ``pool``."""
        self._update_pool(session)
        return self._shown

    def calls(self, object_ids: Iterable[str]) -> Mapping[str, CallRef]:
        """Return the references of those that are cached tool calls."""
        refs = ((object_id, self.call(object_id)) for object_id in object_ids)
        return {object_id: ref for object_id, ref in refs if ref is not None}

    def made_in(self, chat_ref: str, *, session: Session) -> list[str]:
        """Return the ids of a chat's tool calls, in the order of the pool."""
        return [
            object_id
            for object_id in session.metadata_pool
            if self._objects[object_id].chat_ref == chat_ref
        ]

    def _update_pool(self, session: Session) -> None:
        ids, length = session.metadata_pool, len(self._pool.entries)
        if self._reordered or self._changed or len(ids) < length:
            cached = [self._objects[object_id] for object_id in ids]
            self._pool = Pool(item.entry for item in cached)
            self._shown = AppendOnly(item.shown for item in cached)
        elif len(ids) > length:
            cached = [self._objects[object_id] for object_id in ids.in_order[length:]]
            self._pool = self._pool.add(item.entry for item in cached)
            self._shown = self._shown.add(item.shown for item in cached)
        self._reordered = False
        self._changed = False

    def _learn(self, cached: CachedObject, text: str | None) -> None:
        object_id = cached.entry.object_id
        before = self._objects.get(object_id)
        self._objects[object_id] = cached
        if before is not None and (before.entry, before.shown) != (cached.entry, cached.shown):
            self._changed = True
        if text is not None:
            if self._texts.get(object_id) != text:
                self._blocks.pop(object_id, None)
            self._texts[object_id] = text
        elif before is not None and before.shown.object_hash != cached.shown.object_hash:
            self._texts.pop(object_id, None)
            self._blocks.pop(object_id, None)
