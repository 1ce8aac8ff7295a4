"""A block of a prompt in full: what the model saw of it, and what folding hid. Reads the store.

    shown       lines that were in the prompt
    hidden      lines that were not
    elsewhere   lines that the prompt showed in another place, and referred to here

A block that is one line for an object has all of the object's text hidden.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.context.assembly import PieceKind
from ctxmgr.core.history.cache_report import counted_as
from ctxmgr.core.history.prompt_rows import Count, CountedBlock
from ctxmgr.core.history.reading import ReadPrompts, read_chat, read_prompts, read_version
from ctxmgr.core.history.rebuild import BlockText, PromptWalk
from ctxmgr.core.history.turn_records import ShownVersion, shown_at
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import NotFound

SHOWN: Final = "shown"
HIDDEN: Final = "hidden"
ELSEWHERE: Final = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Consecutive lines that were all shown, or all hidden."""

    state: str
    """shown, hidden or elsewhere."""
    first_line: int
    """Its number in the text, from 1."""
    lines: int
    text: str = field(repr=False)
    as_in: str | None = None
    """Where the prompt showed the same lines, as it named the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfoldedText:
    """One text of a block: an output, a long argument, the text of a notice or of an object."""

    what: str
    """output, notice, object, or the path of an argument, such as ``/newText``."""
    lines: int
    hidden_lines: int
    tokens: int
    """Of the whole text."""
    parts: tuple[TextPart, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfoldedBlock:
    """A block of a prompt, and the whole texts that it shows or stands for."""

    session_id: str
    turn: int
    block: int
    kind: str
    object_id: str | None
    shown: str = field(repr=False)
    """As the model saw it."""
    texts: tuple[UnfoldedText, ...]
    """Empty: the block is not made of other texts, and shows all there is."""


async def unfold_block(
    store: Store, session_id: str, *, turn: int | None, block: int
) -> UnfoldedBlock:
    """Return a block of a turn's prompt in full; None: of the last turn's."""
    chat = await read_chat(store, session_id)
    number = chat.turn_count if turn is None else turn
    if not 1 <= number <= chat.turn_count:
        raise NotFound(f"session {session_id} has {chat.turn_count} turns, but no turn {number}")
    read = await read_prompts(store, chat, first=number, last=number)
    count = counted_as(chat)
    found, texts = await asyncio.to_thread(_texts, read, block, count)
    if found.kind is PieceKind.LISTED and found.object_id is not None:
        texts = await _listed(store, read, found.object_id, count)
    return UnfoldedBlock(
        session_id=session_id,
        turn=number,
        block=block,
        kind=str(found.kind),
        object_id=found.object_id,
        shown=found.text,
        texts=texts,
    )


def _texts(
    read: ReadPrompts, block: int, count: Count
) -> tuple[CountedBlock, tuple[UnfoldedText, ...]]:
    walk = PromptWalk(read.chat.turns, read.versions, count=count)
    for record in read.records:
        walk.join(record)
    blocks = [block for row in walk.build().rows for block in row.blocks]
    if not 1 <= block <= len(blocks):
        last = read.records[-1].n
        raise NotFound(f"the prompt of turn {last} has {len(blocks)} blocks, but no block {block}")
    found = blocks[block - 1]
    return found, tuple(_text(text, count) for text in walk.texts(found))


async def _listed(
    store: Store, read: ReadPrompts, object_id: str, count: Count
) -> tuple[UnfoldedText, ...]:
    last = read.records[-1]
    chain = (record for record in read.records if last.snapshot <= record.n)
    shown: ShownVersion | None = shown_at(chain).get(object_id)
    if shown is None:
        return ()
    content = (await read_version(store, shown)).content
    if not content:
        return ()
    return (_text(BlockText(what="object", content=content, shown=()), count),)


def _text(text: BlockText, count: Count) -> UnfoldedText:
    parts: list[TextPart] = []
    position = 0
    for start, end, as_in in (*text.shown, (len(text.content), len(text.content), None)):
        if start > position:
            parts.append(_part(text.content, position, start, HIDDEN))
        if end > start:
            parts.append(_part(text.content, start, end, ELSEWHERE if as_in else SHOWN, as_in))
        position = max(position, end)
    return UnfoldedText(
        what=text.what,
        lines=_lines(text.content),
        hidden_lines=sum(part.lines for part in parts if part.state == HIDDEN),
        tokens=count(text.content),
        parts=tuple(parts),
    )


def _part(content: str, start: int, end: int, state: str, as_in: str | None = None) -> TextPart:
    text = content[start:end]
    return TextPart(
        state=state,
        first_line=content.count("\n", 0, start) + 1,
        lines=_lines(text),
        text=text,
        as_in=as_in,
    )


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
