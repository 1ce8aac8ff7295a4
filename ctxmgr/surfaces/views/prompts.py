"""A prompt of a session as the model receives it, and its blocks one by one. Reads the store.

The prompt of an earlier turn is rebuilt from that turn's record and verified by its hash; one that
does not match is not shown. The current prompt is the start of the next turn, before its message.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctxmgr.app import connect
from ctxmgr.core.context.assembly import Context, Section
from ctxmgr.core.history.as_of import prompt_as_of
from ctxmgr.core.history.cache_report import counted_as
from ctxmgr.core.history.prompt_rows import CountedBlock, Prompt, PromptRow, common_length
from ctxmgr.core.history.reading import ReadPrompts, read_chat, read_prompts
from ctxmgr.core.history.turn_records import ShownVersion, TurnRecord, shown_at
from ctxmgr.core.model import read_usage
from ctxmgr.core.objects.envelope import (
    CHAT,
    FILE,
    SYSTEM_PROMPT,
    TOOLCALL,
    chat_id,
    system_prompt_id,
)
from ctxmgr.core.prices import PriceList
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import NotFound
from ctxmgr.messages.answers import answer_text
from ctxmgr.messages.forms import FORMS
from ctxmgr.surfaces.views.calls import TimeSpan, TurnCall, called_by, read_calls, time_spans
from ctxmgr.surfaces.views.differences import GONE, compare_blocks
from ctxmgr.surfaces.views.last_turn import NOWHERE, last_record
from ctxmgr.surfaces.views.timeline import policy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSize:
    """One section of a prompt."""

    section: str
    blocks: int
    """Objects, turns or contributions in it."""
    chars: int
    bytes: int
    """In UTF-8."""
    tokens: int | None
    """Counted with the requested model's tokenizer; None: no model was requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """A prompt and its sizes by section."""

    session_id: str
    turn: int
    form: str
    prompt_hash: str
    """Of the plain form, from which the other forms are made."""
    proven: bool
    """Whether it equals the hash that was recorded when the prompt was sent."""
    sections: tuple[SectionSize, ...]
    prompt: Any = field(repr=False)
    """One text, or the parts of the API's request."""


async def view_prompt(
    store: Store, session_id: str, *, turn: int | None, form: str, model: str | None
) -> PromptView:
    """Return the prompt of a turn, or the current one.

    With a model, tokens are counted with its tokenizer, where that is public.
    """
    if turn is not None:
        context, number = await prompt_as_of(store, session_id, turn=turn), turn
    else:
        record = await last_record(store, session_id)
        mounts = record.mounts if record else ()
        async with connect(
            store=store,
            mounts=mounts,
            filesystem_id=NOWHERE if mounts else None,
            tracking=False,
        ) as client:
            live = await client.visit(session_id)
            await live.render()
            assert live.sent is not None, "it was rendered"
            context, number = live.sent, live.turn
    return PromptView(
        session_id=context.session_id,
        turn=number,
        form=form,
        prompt_hash=context.prompt_hash(),
        proven=turn is not None,
        sections=_sizes(context, model),
        prompt=FORMS[form].payload(context),
    )


def _sizes(context: Context, model: str | None) -> tuple[SectionSize, ...]:
    tokens: dict[str, int] = {}
    if model:
        # Imported here: loading a vocabulary takes longer than making a prompt.
        from ctxmgr.core.context.tokens import TokenCounter, vocabulary

        tokens = TokenCounter(vocabulary(model)).count_sections(context.blocks())
    return tuple(
        SectionSize(
            section=str(section),
            blocks=len(texts),
            chars=sum(map(len, texts)),
            bytes=sum(len(text.encode()) for text in texts),
            tokens=tokens.get(str(section)),
        )
        for section in Section
        if (texts := [block.text for block in context.section(section)])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBlock:
    """A block of a prompt."""

    section: str
    object_id: str | None
    """The object of the text; None: the user's last message, or a contribution."""
    kind: str | None
    shows: str
    """system, layer, listed, file, output, folded, notice, user or assistant."""
    name: str
    """A file's path as the agent saw it; a tool call's tool."""
    argument: str
    """Of a tool call: what it is about, such as a path or a command; else empty."""
    status: str | None
    """Of a tool call: ok or fail."""
    chars: int
    tokens: int
    hidden_tokens: int
    """Of the text that folding hides; ``ctxmgr unfold`` shows it."""
    change: str
    """same, new, changed, moved or gone, compared with the previous prompt."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A prompt in blocks, compared with the previous one."""

    session_id: str
    turn: int
    prompt_hash: str
    proven: bool
    """False if something that it showed was purged; otherwise it matches its recorded hash."""
    policy: str | None
    """None: the plain form."""
    model: str | None
    usd: float | None
    """What the call cost, by reported usage and list price; None: one of them is not known."""
    user: str
    answer: str
    common_chars: int
    """Length of the prefix shared with the previous prompt."""
    sections: tuple[SectionSize, ...]
    blocks: tuple[TurnBlock, ...] = field(repr=False)
    """In the order of the prompt."""
    gone: tuple[TurnBlock, ...] = field(repr=False)
    """Blocks of the previous prompt that are not in this one."""
    full: bool
    """Whether a terminal prints the texts too."""
    calls: tuple[TurnCall, ...] = field(repr=False)
    """The tool calls that the answer asked for."""
    spans: tuple[TimeSpan, ...] = field(repr=False)
    """How the turn spent its time, as far as it is recorded."""


async def view_turn(
    store: Store, session_id: str, *, turn: int | None, prices: PriceList, full: bool = False
) -> TurnView:
    """Return the blocks of a turn's prompt; None: of the last turn."""
    chat = await read_chat(store, session_id)
    number = chat.turn_count if turn is None else turn
    if not 1 <= number <= chat.turn_count:
        raise NotFound(f"session {session_id} has {chat.turn_count} turns, but no turn {number}")
    read = await read_prompts(store, chat, first=max(1, number - 1), last=number)
    calls = (await read_calls(store, chat, [number]))[number]
    return await asyncio.to_thread(_view, read, session_id, calls, full=full, prices=prices)


def _view(
    read: ReadPrompts,
    session_id: str,
    calls: tuple[TurnCall, ...],
    *,
    full: bool,
    prices: PriceList,
) -> TurnView:
    prompts = list(read.prompts(count=counted_as(read.chat)))
    record, now = prompts[-1]
    before = prompts[0][1] if len(prompts) > 1 else Prompt(())
    names = (_names(read, prompts[0][0]) if len(prompts) > 1 else {}) | _names(read, record)
    arguments = called_by(read.chat)
    blocks, gone = compare_blocks(before, now)
    turn = read.chat.turns[record.n - 1]
    return TurnView(
        session_id=session_id,
        turn=record.n,
        prompt_hash=record.prompt_hash,
        proven=all(version.purge is None for version in read.versions.values()),
        policy=policy_name(record),
        model=turn.assistant_meta.model,
        usd=prices.usd(turn.assistant_meta.model, read_usage(turn.assistant_meta.usage)),
        user=turn.user,
        answer=answer_text(turn.assistant),
        common_chars=common_length(before.text(), now.text()),
        sections=tuple(map(_size, now.rows)),
        blocks=tuple(_block(piece, change, names, arguments) for piece, change in blocks),
        gone=tuple(_block(piece, GONE, names, arguments) for piece in gone),
        full=full,
        calls=calls,
        spans=time_spans(
            calls,
            start=read.valid_times.get(record.n - 1),
            answered=turn.assistant_meta.timestamp,
            end=read.valid_times[record.n],
        ),
    )


class _Named(NamedTuple):
    kind: str | None = None
    name: str = ""
    status: str | None = None


def _names(read: ReadPrompts, record: TurnRecord) -> dict[str, _Named]:
    """Return the kind and name of each object that a prompt showed."""
    chain = [earlier for earlier in read.records if record.snapshot <= earlier.n <= record.n]
    own_names = {
        chat_id(record.session): _Named(CHAT),
        system_prompt_id(record.session): _Named(SYSTEM_PROMPT),
    }
    versions = shown_at(earlier for earlier in chain if earlier.session == record.session)
    return {version.object_id: _named(read, version) for version in versions.values()} | own_names


def _named(read: ReadPrompts, version_shown: ShownVersion) -> _Named:
    if version_shown.display_path is not None:
        return _Named(FILE, version_shown.display_path)
    version = read.versions.get((version_shown.object_id, version_shown.object_hash))
    call = version.call if version else None
    return _Named(TOOLCALL, call.tool, call.status) if call else _Named(TOOLCALL)


def _size(row: PromptRow) -> SectionSize:
    return SectionSize(
        section=str(row.section),
        blocks=len(row.blocks),
        chars=sum(len(block.text) for block in row.blocks),
        bytes=row.size_bytes,
        tokens=row.tokens,
    )


def _block(
    piece: CountedBlock, change: str, names: Mapping[str, _Named], arguments: Mapping[str, str]
) -> TurnBlock:
    named = names.get(piece.object_id or "", _Named())
    return TurnBlock(
        section=str(piece.section),
        object_id=piece.object_id,
        kind=named.kind,
        shows=str(piece.kind),
        name=named.name,
        argument=arguments.get(piece.object_id or "", ""),
        status=named.status,
        chars=len(piece.text),
        tokens=piece.tokens,
        hidden_tokens=piece.hidden_tokens,
        change=change,
        text=piece.text,
    )
