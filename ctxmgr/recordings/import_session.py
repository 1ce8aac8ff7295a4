"""Imports a recording as a session of a client, turn by turn. Commits.

    import_recording     stores a recording as a new session, adds what is new to the session that
                         an earlier import made, or completes one that hooks have captured
    recorded:{session}   what was imported: format, digest of the file, the parent of a subagent

What is stored is valid from the recorded times. Files are not read: their content today is not what
the recorded calls saw. Ids of tool calls are made from session and turn (003-A20), so that a
recording can be imported under several names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.history.recorded_usage import CAPTURED, RECORDED, recorded_usage
from ctxmgr.core.model import to_value
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.objects.purged import deletion_id, refuse_deleted
from ctxmgr.core.store.contract import Instant, Put, Store
from ctxmgr.core.store.documents import ID, KIND, Document, storable
from ctxmgr.errors import Incorrect
from ctxmgr.messages.answers import ToolCallIds, read_call
from ctxmgr.recordings.captured import HOOK, completion
from ctxmgr.recordings.recorder import RecordedCall, RecordedTurn, Recording

NO_SYSTEM_PROMPT: Final = "[the system prompt was not recorded]"

PARTIAL: Final = "partial"
"""In that document: an import has begun, and if nothing follows, it was interrupted."""

NEW: Final = "new"
CONTINUED: Final = "continued"
COMPLETED: Final = "completed"
UNCHANGED: Final = "unchanged"
Outcome: TypeAlias = Literal["new", "continued", "completed", "unchanged"]
"""What an import did: stored a session, added turns to one, completed one that hooks have captured,
or nothing."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRecording:
    """The result of an import. Turns and calls are those that it added."""

    session_id: str
    format: str
    outcome: Outcome
    turns: int
    tool_calls: int
    captured_turns: int = 0
    """Turns that hooks had captured, to which tokens and model were added."""
    system_prompt_added: bool = False
    """Whether a captured session had none before."""
    left_out: int = 0
    """Exchanges that hooks have missed between others, or that are not complete."""


@dataclass(frozen=True, slots=True)
class _Part:
    document: Document
    call: RecordedCall | None


async def import_recording(
    client: Client,
    recording: Recording,
    *,
    session_id: str,
    digest: str | None = None,
    progress: Progress = lambda _done, _total: None,
) -> ImportedRecording:
    """Store a recording as a paused session, or what is new in it.

    ``digest`` identifies the content of the file, to recognise it again. ``Incorrect`` if the
    session was neither imported from this recording nor captured by hooks, or was continued since.
    """
    earlier = await read_mark(client.store, session_id)
    if await _was_captured(client.store, session_id, earlier):
        return await _complete(
            client, recording, session_id=session_id, digest=digest, progress=progress
        )
    if earlier is None:
        prompt = storable(recording.system_prompt) or NO_SYSTEM_PROMPT
        began = recording.turns[0].timestamp
        mark = _mark(recording, session_id, turns=0, digest=None) | {PARTIAL: True}
        session = await client.start(session_id, system_prompt=prompt, at=began, documents=[mark])
        turns: Sequence[RecordedTurn] = recording.turns
    else:
        session = await client.resume(session_id)
    try:
        if earlier is not None:
            imported = None if PARTIAL in earlier else earlier["turns"]
            turns = await _new_turns(session, recording, imported=imported)
        if earlier is not None and turns:
            mark = _mark(recording, session_id, turns=session.chat.turn_count, digest=None)
            await client.store.commit([Put(mark | {PARTIAL: True})])
        tool_calls = 0
        for number, turn in enumerate(turns, start=1):
            progress(number, len(turns))
            tool_calls += await _import_turn(session, turn, api=recording.format)
        mark = _mark(recording, session_id, turns=session.chat.turn_count, digest=digest)
        await client.store.commit([Put(mark)])
    finally:
        await client.pause(session_id)
    outcome: Outcome = NEW if earlier is None else CONTINUED if turns else UNCHANGED
    return ImportedRecording(
        session_id=session_id,
        format=recording.format,
        outcome=outcome,
        turns=len(turns),
        tool_calls=tool_calls,
    )


async def _was_captured(store: Store, session_id: str, mark: Document | None) -> bool:
    """Whether hooks have stored this session."""
    if mark is not None:
        return CAPTURED in mark
    version = await store.get(chat_id(session_id))
    turns = [] if version is None else version.document["turns"]
    return bool(turns) and turns[0]["assistant_meta"].get("api") == HOOK


async def _complete(
    client: Client,
    recording: Recording,
    *,
    session_id: str,
    digest: str | None,
    progress: Progress,
) -> ImportedRecording:
    """Add what hooks do not know to a session that they have captured.

    The session is not opened for that: the agent may be at work, and its hooks store more.
    """
    refuse_deleted(session_id, await client.store.get(deletion_id(session_id)))
    session = await client.visit(session_id)
    found = completion(session.chat.turns, recording, session_id=session_id)
    before = await recorded_usage(client.store, session_id)
    prompt = storable(recording.system_prompt)
    is_without_prompt = bool(prompt) and not session.context().system_prompt
    if is_without_prompt:
        await session.change_system_prompt(prompt)
    tool_calls = 0
    for number, turn in enumerate(found.new, start=1):
        progress(number, len(found.new))
        tool_calls += await _import_turn(session, turn, api=recording.format)
    mark = _mark(recording, session_id, turns=session.chat.turn_count, digest=digest)
    await client.store.commit([Put(mark | {CAPTURED: {**before, **found.captured}})])
    added = [number for number, value in found.captured.items() if before.get(number) != value]
    is_changed = bool(added or found.new or is_without_prompt)
    return ImportedRecording(
        session_id=session_id,
        format=recording.format,
        outcome=COMPLETED if is_changed else UNCHANGED,
        turns=len(found.new),
        tool_calls=tool_calls,
        captured_turns=len(added),
        system_prompt_added=is_without_prompt,
        left_out=found.left_out,
    )


async def read_mark(store: Store, session_id: str) -> Document | None:
    """Return what was imported into a session; None: nothing."""
    version = await store.get(f"{RECORDED}:{session_id}")
    return None if version is None else version.document


def _mark(recording: Recording, session_id: str, *, turns: int, digest: str | None) -> Document:
    document = {
        ID: f"{RECORDED}:{session_id}",
        KIND: RECORDED,
        "session": session_id,
        "format": recording.format,
        "turns": turns,
    }
    optional = {"parent": storable(recording.parent), "digest": digest}
    return document | {name: value for name, value in optional.items() if value is not None}


async def _new_turns(
    session: LiveSession, recording: Recording, *, imported: int | None
) -> list[RecordedTurn]:
    """Return the turns that the session lacks; ``Incorrect`` unless the others are its turns.

    The last turn may have been imported while its answer was written or its tools ran: what the
    answer gained is another turn, without user text, and outputs are recorded now. ``imported`` is
    None if the last import was interrupted: then it is unknown how many turns were imported.
    """
    stored, name = session.chat.turns, session.session_id
    if imported is not None and len(stored) != imported:
        raise Incorrect(
            f"session {name} was continued after its import; import the recording under another "
            "name with --session"
        )
    held = [part for turn in stored for part in turn.assistant]
    known = [_identity(part) for part in held]
    found = [part for turn in recording.turns for part in _parts_of(session, turn)]
    users = [turn.user for turn in stored if turn.user]
    recorded_users = [storable(turn.user) for turn in recording.turns if turn.user]
    is_same = known == [_identity(part.document) for part in found[: len(known)]]
    if not is_same or users != recorded_users[: len(users)]:
        raise Incorrect(
            f"session {name} does not begin like the recording: it was imported from another one; "
            "import this one under another name with --session"
        )
    for document, part in zip(held, found, strict=False):
        if part.call is not None and document["toolcall_id"] not in session.sets.session_index:
            await _record(session, document, part.call)
    return _after(recording.turns, users=len(users), parts=len(held))


def _after(turns: Sequence[RecordedTurn], *, users: int, parts: int) -> list[RecordedTurn]:
    """Return what follows the first user texts and parts."""
    new: list[RecordedTurn] = []
    for turn in turns:
        is_known, known_parts = turn.user == "" or users > 0, min(parts, len(turn.parts))
        users, parts = users - bool(turn.user), parts - known_parts
        if new or not is_known or known_parts < len(turn.parts):
            rest = turn.parts[known_parts:]
            new.append(replace(turn, user="" if is_known and not new else turn.user, parts=rest))
    return new


def _identity(part: Mapping[str, Any]) -> tuple[object, ...]:
    """What a stored part and the recorded one have in common."""
    return (part["type"], part.get("text"), part.get("tool"), part.get("args"))


def _parts_of(session: LiveSession, turn: RecordedTurn) -> list[_Part]:
    ids = ToolCallIds(session.session_id, turn=session.turn, unique=False)
    parts: list[_Part] = []
    for recorded_part in turn.parts:
        if isinstance(recorded_part, RecordedCall):
            args = storable(recorded_part.args)
            document = read_call(recorded_part.call_id, name=recorded_part.tool, args=args, ids=ids)
            if recorded_part.call_id in session.pending_calls:  # a hook has stored it
                document = document | {"toolcall_id": recorded_part.call_id}
            parts.append(_Part(document, recorded_part))
        else:
            parts.append(_Part(text_part(storable(recorded_part)), None))
    return parts


async def _import_turn(session: LiveSession, turn: RecordedTurn, *, api: str) -> int:
    parts = _parts_of(session, turn)
    await session.render(storable(turn.user), form=None)
    recorded = 0
    for part in sorted(parts, key=_recorded_at):
        if part.call is not None:
            recorded += await _record(session, part.document, part.call, at=turn.timestamp)
    meta = AssistantMeta(
        api=api,
        model=turn.model,
        usage=to_value(turn.usage) if turn.usage else None,
        timestamp=turn.timestamp,
    )
    await session.end_turn([part.document for part in parts], meta=meta, at=turn.timestamp)
    return recorded


def _recorded_at(part: _Part) -> int:
    """When the result of a call was recorded; parallel calls end in another order."""
    return 0 if part.call is None else part.call.timestamp or 0


async def _record(
    session: LiveSession,
    document: Mapping[str, Any],
    call: RecordedCall,
    *,
    at: Instant | None = None,
) -> bool:
    """Store a call; return False if no result was recorded."""
    if call.output is None or document["toolcall_id"] in session.pending_calls:
        return False
    await session.record(
        document["toolcall_id"],
        tool=document["tool"],
        args=document["args"],
        output=storable(call.output),
        status="fail" if call.failed else "ok",
        discover=False,
        at=at if call.timestamp is None else call.timestamp,
    )
    return True
