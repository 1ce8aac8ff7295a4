"""Check the versions of a bundle's objects, field by field. Does no I/O.

    file, toolcall, system_prompt   read as from a store
    chat, session                   only what is new in a version is read: all versions of a chat
                                    together cost what its last one does, and a hash each
    turn, policy, compaction        plain documents: the caller's check
    lifecycle, fork                 plain documents of a few fields

The hashes of a version are those of its own fields. Plain documents have none; the hash that the
bundle holds of them is compared.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from ctxmgr.core.events.lifecycle import ACTIVE, PAUSED, lifecycle_document
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import from_document, to_document, verify_document
from ctxmgr.core.objects.envelope import (
    chat_id,
    check_session_id,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.objects.session_record import SETS, SessionRecord
from ctxmgr.core.sessions.lineage import fork_document
from ctxmgr.core.store.documents import ID, KIND, Document, check_object_id
from ctxmgr.errors import Incorrect

CheckRecord: TypeAlias = Callable[[Document], None]
"""Raises one of our errors unless a document is a turn record, a policy or a compaction."""

_CHAT_FIELDS: Final = to_document(Chat(session_id="s")).keys()
_SESSION_FIELDS: Final = to_document(SessionRecord(session_id="s")).keys()


class ObjectChecks:
    """Checks the versions of one object in their order."""

    def __init__(self, kind: str, *, check_record: CheckRecord) -> None:
        self._kind = kind
        self._check_record = check_record
        self._chat = _ChatFields()
        self._sets = _SessionFields()

    def check(self, document: Document, changes: Document, *, metadata: Callable[[], str]) -> None:
        """Check a version; raises one of our errors.

        ``changes`` holds what differs from the version before: a field's new value, or the items
        that its list grew by. ``metadata`` returns the ``metadata_hash``.
        """
        match self._kind:
            case "chat":
                self._chat.check(document, changes)
                verify_document(document, metadata=metadata())
            case "session":
                self._sets.check(document, changes)
                verify_document(document, metadata=metadata())
            case "file" | "toolcall" | "system_prompt":
                from_document(document)
            case "turn" | "policy" | "compaction":
                self._check_record(document)
            case "lifecycle":
                _check_lifecycle(document)
            case "fork":
                _check_fork(document)
            case kind:
                raise Incorrect(f"a bundle holds no documents of the kind {kind!r:.80}")


class _ChatFields:
    """The fields of a chat, of which only new turns are read."""

    def __init__(self) -> None:
        self._turns = 0
        self._refs: dict[str, None] = {}

    def check(self, document: Document, changes: Document) -> None:
        _check_names(document, _CHAT_FIELDS)
        session_id = _session_id(document)
        _check_value(document, "session_ref", session_object_id(session_id))
        new = changes.get("turns", ())
        if not isinstance(document["turns"], list):
            raise Incorrect(f"turns must be a list, not {document['turns']!r:.80}")
        if len(new) == len(document["turns"]):
            self._turns, self._refs = 0, {}
        for value in new:
            self._refs.update(dict.fromkeys(Turn.from_value(value).toolcall_ids))
        self._turns += len(new)
        _check_value(document, "turn_count", self._turns)
        _check_value(document, "toolcall_refs", list(self._refs))
        for name in ("source", "content"):
            _check_value(document, name, None)


class _SessionFields:
    """The sets of a session, of which only new ids are read."""

    def __init__(self) -> None:
        self._sets: dict[str, dict[str, None]] = {name: {} for name in SETS}

    def check(self, document: Document, changes: Document) -> None:
        _check_names(document, _SESSION_FIELDS)
        session_id = _session_id(document)
        _check_value(document, "session_id", session_id)
        _check_value(document, "chat_ref", chat_id(session_id))
        _check_value(document, "system_prompt_ref", system_prompt_id(session_id))
        for name in ("source", "content"):
            _check_value(document, name, None)
        rewritten = {name for name in SETS if self._take(name, document, changes)}
        index, pool, active, pinned = (self._sets[name] for name in SETS)
        if "session_index" in changes or "metadata_pool" in changes:
            whole = bool(rewritten & {"session_index", "metadata_pool"})
            new_in_pool = pool if whole else changes.get("metadata_pool", ())
            _check_within("metadata_pool", new_in_pool, "session_index", index)
        if "metadata_pool" in rewritten or "active_set" in changes:
            _check_within("active_set", active, "metadata_pool", pool)
        if "metadata_pool" in rewritten or "pinned_set" in changes:
            _check_within("pinned_set", pinned, "metadata_pool", pool)

    def _take(self, name: str, document: Document, changes: Document) -> bool:
        """Read the new ids of a set; return whether all of it was written anew."""
        if name not in changes:
            return False
        ids, new = document[name], changes[name]
        if not isinstance(ids, list):
            raise Incorrect(f"{name} must be a list, not {ids!r:.80}")
        for object_id in new:
            check_object_id(object_id)
        before = self._sets[name]
        rewritten = len(new) == len(ids)
        known = dict.fromkeys(new) if rewritten else before
        if not rewritten:
            known.update(dict.fromkeys(new))
        if len(known) < len(ids):
            raise Incorrect(f"{name} contains an id twice")
        if rewritten and name == "session_index" and not before.keys() <= known.keys():
            raise Incorrect("the session index lost an object, and it only grows")
        self._sets[name] = known
        return rewritten


def _check_lifecycle(document: Document) -> None:
    session_id, state = document.get("session"), document.get("state")
    check_session_id(session_id)
    if state not in {ACTIVE, PAUSED}:
        raise Incorrect(f"state must be {ACTIVE} or {PAUSED}, not {state!r:.80}")
    _check_same(document, lifecycle_document(str(session_id), state=state))


def _check_fork(document: Document) -> None:
    session_id, parent, turn = (document.get(name) for name in ("session", "parent", "turn"))
    check_session_id(session_id)
    check_session_id(parent)
    if type(turn) is not int or turn < 1:
        raise Incorrect(f"turn must be the number of a turn, not {turn!r:.80}")
    _check_same(document, fork_document(str(session_id), parent=str(parent), turn=turn))


def _check_same(document: Document, expected: Document) -> None:
    _check_names(document, expected.keys())
    for name, value in expected.items():
        _check_value(document, name, value)


def _check_names(document: Document, names: Iterable[str]) -> None:
    different = document.keys() ^ names
    if different:
        raise Incorrect(f"the field {min(different)!r:.80} is missing or unknown")


def _check_value(document: Document, name: str, expected: Any) -> None:
    value = document[name]
    if type(value) is not type(expected) or value != expected:
        raise Incorrect(f"{name} is {value!r:.80}, but must be {expected!r:.80}")


def _check_within(name: str, ids: Iterable[str], outer: str, outer_ids: dict[str, None]) -> None:
    for object_id in ids:
        if object_id not in outer_ids:
            raise Incorrect(f"{object_id!r:.80} is in {name} and not in {outer}")


def _session_id(document: Document) -> str:
    session_id = str(document[ID]).removeprefix(f"{document[KIND]}:")
    check_session_id(session_id)
    _check_value(document, ID, f"{document[KIND]}:{session_id}")
    return session_id
