"""What a client keeps in memory of a session's objects: a line each, and the active text. Pure.

    known    object → its line in the pool, which version that is, and its reference in the chat
    blocks   active object → its full text

Content of what is not active is let go, so that memory is what is active and a line per object of
the pool. Nothing here decides what is shown: the session's sets do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from ctxmgr.core.assembly import ActiveBlock, Pool, PoolEntry
from ctxmgr.core.contents import File, FileState, ToolCall
from ctxmgr.core.growing import Growing
from ctxmgr.core.parts import CallRef
from ctxmgr.core.sessions import Session
from ctxmgr.core.turns import ShownVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one content object without its text."""

    entry: PoolEntry
    shown: ShownVersion
    call: CallRef | None = None
    """Tool calls only."""
    chat_ref: str | None = None
    """Tool calls only: whose chat it was made in."""
    state: FileState | None = None
    """Files only."""
    char_count: int = 0


class MetadataCache:
    """The objects of one session, as they were last seen in the store."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._blocks: dict[str, ActiveBlock] = {}
        self._pool = Pool()
        self._shown: Growing[ShownVersion] = Growing()
        """Of the pool's objects, in its order."""
        self._complete = 0
        """So many of the pool's first objects are known."""
        self._changed = False
        self._reordered = False

    def __contains__(self, object_id: object) -> bool:
        return object_id in self._known

    def get(self, object_id: str) -> Known | None:
        """Return what is known of the object; None: nothing yet."""
        return self._known.get(object_id)

    def call(self, object_id: str) -> CallRef | None:
        known = self._known.get(object_id)
        return known.call if known else None

    def learn_file(self, file: File, *, display_path: str, state: FileState, active: bool) -> None:
        """Take in a version of a file; its text is kept only if it is shown."""
        entry = PoolEntry.of_file(file, display_path=display_path, state=state)
        shown = ShownVersion.of(file, display_path=display_path, state=state)
        known = Known(entry=entry, shown=shown, state=state, char_count=file.char_count)
        self._learn(known, ActiveBlock.of_file(file, state=state) if active else None)

    def learn_call(self, toolcall: ToolCall, *, active: bool) -> None:
        """Take in a tool call; its output is kept only if it is shown."""
        entry, shown = PoolEntry.of_toolcall(toolcall), ShownVersion.of(toolcall)
        length = len(toolcall.content or "")
        known = Known(
            entry=entry,
            shown=shown,
            call=CallRef.of(toolcall),
            chat_ref=toolcall.chat_ref,
            char_count=length,
        )
        self._learn(known, ActiveBlock.of_toolcall(toolcall) if active else None)

    def reorder(self) -> None:
        """Note that the pool may have another order: another client's changes were merged."""
        self._reordered = True
        self._complete = 0

    def missing(self, session: Session) -> list[str]:
        """Name what has to be read before the session can be shown."""
        new = islice(session.metadata_pool, self._complete, None)
        unknown = [each for each in new if each not in self._known]
        if not unknown:
            self._complete = len(session.metadata_pool)
        textless = [each for each in session.active_set if each not in self._blocks]
        return list(dict.fromkeys([*unknown, *textless]))

    def pool(self, session: Session) -> Pool:
        """Return the pool; costs what is new, unless a line has changed."""
        self._bring_up_to_date(session)
        return self._pool

    def active(self, session: Session) -> tuple[ActiveBlock, ...]:
        """Return the full texts in their order."""
        return tuple(self._blocks[each] for each in session.active_set)

    def content(self, object_id: str) -> str | None:
        """Return the full text of an active object; None: it is not kept here."""
        block = self._blocks.get(object_id)
        return None if block is None else block.content

    def let_go(self, session: Session) -> None:
        """Forget the texts that are not shown any more."""
        for object_id in [each for each in self._blocks if each not in session.active_set]:
            del self._blocks[object_id]

    def shown(self, session: Session) -> Growing[ShownVersion]:
        """Return the versions that the pool shows, in its order; costs likewise."""
        self._bring_up_to_date(session)
        return self._shown

    def calls(self, object_ids: Iterable[str]) -> Mapping[str, CallRef]:
        """Return the references of those that are known tool calls."""
        found = ((each, self.call(each)) for each in object_ids)
        return {object_id: ref for object_id, ref in found if ref is not None}

    def made_in(self, chat_ref: str, *, session: Session) -> list[str]:
        """Name the tool calls of a chat, in the order of the pool."""
        return [each for each in session.metadata_pool if self._known[each].chat_ref == chat_ref]

    def _bring_up_to_date(self, session: Session) -> None:
        ids, there = session.metadata_pool, len(self._pool.entries)
        if self._reordered or self._changed or len(ids) < there:
            known = [self._known[each] for each in ids]
            self._pool = Pool(each.entry for each in known)
            self._shown = Growing(each.shown for each in known)
        elif len(ids) > there:
            known = [self._known[each] for each in islice(ids, there, None)]
            self._pool = self._pool.add(each.entry for each in known)
            self._shown = self._shown.add(each.shown for each in known)
        self._reordered = False
        self._changed = False

    def _learn(self, known: Known, block: ActiveBlock | None) -> None:
        object_id = known.entry.object_id
        before = self._known.get(object_id)
        self._known[object_id] = known
        if before is not None and (before.entry, before.shown) != (known.entry, known.shown):
            self._changed = True
        if block is not None:
            self._blocks[object_id] = block
        elif before is not None and before.shown.object_hash != known.shown.object_hash:
            self._blocks.pop(object_id, None)
