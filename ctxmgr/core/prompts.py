"""Prompts made again from their records, and proven. Pure.

    record + versions  →  context  →  its hash is the recorded one, or it is ``Corrupt``

Nothing of the machine that sent the prompt is needed: display paths and states are in the record,
and every version is checked against the ``object_hash`` that was shown.
"""

from collections.abc import Mapping
from typing import TypeVar

from ctxmgr.core.assembly import (
    RENDERER,
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.contents import File, FileState, ToolCall
from ctxmgr.core.economy_records import Told, masked
from ctxmgr.core.envelopes import Sealed, chat_id, system_prompt_id
from ctxmgr.core.infrastructure import Chat, SystemPrompt
from ctxmgr.core.lines import line_id
from ctxmgr.core.parts import CallRef
from ctxmgr.core.stream_turns import ECONOMY_RENDERER, HeldTurn, held_turns
from ctxmgr.core.turns import ShownVersion, TurnRecord
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect

Kind = TypeVar("Kind", bound=Sealed)


def rebuild(
    record: TurnRecord,
    *,
    shown: Mapping[str, ShownVersion],
    versions: Mapping[str, Sealed],
    chat: Chat,
) -> Context:
    """Make prompt ``n`` again.

    ``shown`` is what ``shown_at`` gives for the record, ``versions`` are those versions by id, and
    ``chat`` any version that holds turn n: what was asked then is in that turn.
    """
    if record.policy is not None or record.renderer != RENDERER:
        raise Incorrect(f"{record.object_id} was not made by {RENDERER} without a policy")
    earlier = _earlier(record, chat, shown)
    contents = [
        (each, _version(versions, each.object_id, shown))
        for each in shown.values()
        if each.object_id not in {chat_id(record.session), system_prompt_id(record.session)}
    ]
    system_prompt = _version(versions, system_prompt_id(record.session), shown)
    active = frozenset(record.active)
    blocks = {each.object_id: _block(each, of) for each, of in contents if each.object_id in active}
    calls = {
        each.object_id: CallRef.of(call) for each, call in contents if isinstance(call, ToolCall)
    }
    context = Context(
        session_id=record.session,
        system_prompt=_of(SystemPrompt, system_prompt).content,
        pool=Pool(_entry(each, version) for each, version in contents),
        transcript=Transcript(ShownTurn.of(turn, calls=calls) for turn in earlier.turns),
        user=chat.turns[record.n - 1].user,
        active=tuple(_active(object_id, blocks) for object_id in record.active),
        contributions=record.contributions,
    )
    return _proven(context, record)


def rebuild_economy(
    record: TurnRecord,
    told: Told,
    *,
    shown: Mapping[str, ShownVersion],
    versions: Mapping[str, Sealed],
    chat: Chat,
) -> Context:
    """Make prompt ``n`` again that the economy policy made; ``told`` is what its records say."""
    if record.renderer != ECONOMY_RENDERER:
        raise Incorrect(f"{record.object_id} was not made by {ECONOMY_RENDERER}")
    earlier = _earlier(record, chat, shown)
    calls = {
        object_id: _of(ToolCall, _version(versions, object_id, shown))
        for turn in earlier.turns
        for object_id in turn.toolcall_ids
    }
    system_prompt = _version(versions, system_prompt_id(record.session), shown)
    held = held_turns(
        earlier.turns,
        calls={each: CallRef.of(call) for each, call in calls.items()},
        outputs={
            each: masked(call.content or "", told.masks.get(each, ()))
            for each, call in calls.items()
        },
        notices=told.notices,
    )
    last = HeldTurn(
        number=record.n,
        notices=told.notices.get(record.n, ()),
        user=chat.turns[record.n - 1].user,
    )
    context = Context(
        session_id=record.session,
        system_prompt=_of(SystemPrompt, system_prompt).content,
        pool=Pool(PoolEntry(object_id=line_id(line), line=line) for line in told.pool),
        transcript=Transcript(turn.shown(told.views) for turn in held),
        user=last.shown_user(told.views),
        contributions=record.contributions,
    )
    return _proven(context, record)


def _earlier(record: TurnRecord, chat: Chat, shown: Mapping[str, ShownVersion]) -> Chat:
    if chat.turn_count < record.n:
        raise Incorrect(f"{chat.object_id} has {chat.turn_count} turns, and not {record.n}")
    return _checked(Chat, _chat_before(chat, record.n), shown)


def file_state(shown: ShownVersion, file: File) -> FileState:
    """Tell what was shown of a file: as recorded where its version alone does not tell."""
    return shown.state or file.state()


def _chat_before(chat: Chat, n: int) -> Chat:
    return Chat(session_id=chat.session_id, turns=chat.turns[: n - 1])


def _version(
    versions: Mapping[str, Sealed], object_id: str, shown: Mapping[str, ShownVersion]
) -> Sealed:
    if object_id not in versions:
        raise Corrupt(f"{object_id}: the version that was shown is missing")
    return _checked(Sealed, versions[object_id], shown)


def _checked(kind: type[Kind], version: Sealed, shown: Mapping[str, ShownVersion]) -> Kind:
    recorded = shown.get(version.object_id)
    if recorded is None:
        raise Corrupt(f"{version.object_id}: the record does not say which version was shown")
    if version.object_hash != recorded.object_hash:
        raise HashMismatch(
            version.object_id, "object_hash", recorded.object_hash, version.object_hash
        )
    return _of(kind, version)


def _of(kind: type[Kind], version: Sealed) -> Kind:
    if not isinstance(version, kind):
        raise Corrupt(f"{version.object_id} is no {kind.kind}")
    return version


def _entry(shown: ShownVersion, version: Sealed) -> PoolEntry:
    if isinstance(version, ToolCall):
        return PoolEntry.of_toolcall(version)
    file = _of(File, version)
    path = shown.display_path
    if path is None:
        raise Corrupt(f"{file.object_id}: the record does not say by which path it was shown")
    return PoolEntry.of_file(file, display_path=path, state=file_state(shown, file))


def _block(shown: ShownVersion, version: Sealed) -> ActiveBlock:
    if isinstance(version, ToolCall):
        return ActiveBlock.of_toolcall(version)
    file = _of(File, version)
    return ActiveBlock.of_file(file, state=file_state(shown, file))


def _active(object_id: str, blocks: Mapping[str, ActiveBlock]) -> ActiveBlock:
    if object_id not in blocks:
        raise Corrupt(f"{object_id}: the record does not say which version was active")
    return blocks[object_id]


def _proven(context: Context, record: TurnRecord) -> Context:
    computed = context.prompt_hash()
    if computed != record.prompt_hash:
        raise HashMismatch(record.object_id, "prompt_hash", record.prompt_hash, computed)
    return context
