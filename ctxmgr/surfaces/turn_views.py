"""One prompt of a session taken apart, and what changed in it since the one before.

Reads the store. Both prompts are made again from their records, and proven by their hashes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ctxmgr.core.cache_reading import counted_as
from ctxmgr.core.envelopes import CHAT, FILE, SYSTEM_PROMPT, TOOLCALL, chat_id, system_prompt_id
from ctxmgr.core.prompt_reading import ReadPrompts, read_chat, read_prompts
from ctxmgr.core.prompt_rows import CountedBlock, Prompt, Row, common_length
from ctxmgr.core.store import Store
from ctxmgr.core.turns import ShownVersion, TurnRecord, shown_at
from ctxmgr.errors import NotFound
from ctxmgr.surfaces.block_changes import GONE, compared
from ctxmgr.surfaces.prompt_views import SectionSize
from ctxmgr.surfaces.session_views import said
from ctxmgr.surfaces.timelines import policy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBlock:
    """A piece of a prompt."""

    section: str
    object_id: str | None
    """Whose text it is; None: what was asked just then, or a contribution."""
    kind: str | None
    name: str
    """A file's path as the agent knew it; a tool call's tool."""
    chars: int
    tokens: int
    change: str
    """same, new, changed or moved since the prompt before; of what is gone: gone."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A prompt in pieces."""

    session_id: str
    turn: int
    prompt_hash: str
    proven: bool
    """It is the hash of what was sent; what cannot be proven is not shown."""
    policy: str | None
    """None: the plain form."""
    model: str | None
    user: str
    answer: str
    common_chars: int
    """So far this prompt and the one before begin alike."""
    sections: tuple[SectionSize, ...]
    blocks: tuple[TurnBlock, ...] = field(repr=False)
    """In the order of the prompt."""
    gone: tuple[TurnBlock, ...] = field(repr=False)
    """Stood in the prompt before, and do not any more."""
    full: bool
    """Whether a person is shown the texts too."""


async def view_turn(
    store: Store, session_id: str, *, turn: int | None, full: bool = False
) -> TurnView:
    """Take the prompt of a turn apart; None: of the last one."""
    chat = await read_chat(store, session_id)
    number = chat.turn_count if turn is None else turn
    if not 1 <= number <= chat.turn_count:
        raise NotFound(f"session {session_id} has {chat.turn_count} turns, and no turn {number}")
    read = await read_prompts(store, chat, first=max(1, number - 1), last=number)
    return await asyncio.to_thread(_view, read, session_id, full)


def _view(read: ReadPrompts, session_id: str, full: bool) -> TurnView:  # noqa: FBT001 (passed on)
    made = list(read.prompts(count=counted_as(read.chat)))
    record, now = made[-1]
    before = made[0][1] if len(made) > 1 else Prompt(())
    names = _names(read, record) | (_names(read, made[0][0]) if len(made) > 1 else {})
    blocks, gone = compared(before, now)
    turn = read.chat.turns[record.n - 1]
    return TurnView(
        session_id=session_id,
        turn=record.n,
        prompt_hash=record.prompt_hash,
        proven=True,
        policy=policy_name(record),
        model=turn.assistant_meta.model,
        user=turn.user,
        answer=said(turn),
        common_chars=common_length(before.text(), now.text()),
        sections=tuple(map(_size, now.rows)),
        blocks=tuple(_block(piece, change, names) for piece, change in blocks),
        gone=tuple(_block(piece, GONE, names) for piece in gone),
        full=full,
    )


def _names(read: ReadPrompts, record: TurnRecord) -> dict[str, tuple[str, str]]:
    """Tell of the objects that a prompt showed what they are and what they are called."""
    chain = [each for each in read.records if record.snapshot <= each.n <= record.n]
    own = {
        chat_id(record.session): (CHAT, ""),
        system_prompt_id(record.session): (SYSTEM_PROMPT, ""),
    }
    shown = shown_at(each for each in chain if each.session == record.session)
    return {each.object_id: _named(read, each) for each in shown.values()} | own


def _named(read: ReadPrompts, shown: ShownVersion) -> tuple[str, str]:
    if shown.display_path is not None:
        return FILE, shown.display_path
    version = read.versions.get((shown.object_id, shown.object_hash))
    return TOOLCALL, version.call.tool if version and version.call else ""


def _size(row: Row) -> SectionSize:
    return SectionSize(
        section=str(row.section),
        blocks=len(row.pieces),
        chars=sum(len(each.text) for each in row.pieces),
        bytes=row.size_bytes,
        tokens=row.tokens,
    )


def _block(piece: CountedBlock, change: str, names: Mapping[str, tuple[str, str]]) -> TurnBlock:
    kind, name = names.get(piece.object_id or "", (None, ""))
    return TurnBlock(
        section=str(piece.section),
        object_id=piece.object_id,
        kind=kind,
        name=name,
        chars=len(piece.text),
        tokens=piece.tokens,
        change=change,
        text=piece.text,
    )
