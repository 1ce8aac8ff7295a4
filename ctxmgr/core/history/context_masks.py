"""Secrets in the compact form of a prompt: where they are, and the context without them. Pure.

    name:ID            the path of a file
    turn:7:user        the user's text of turn 7
    turn:7:0           the text of the first part of its answer
    turn:7:1/command   an argument of its second part, by its JSON pointer
    turn:7:1!          the output of its second part
    active:ID          the text of an object that is shown in full

A turn record has the positions under these keys, so that a past prompt is rebuilt whatever a later
release recognises. The plain form shows everything unchanged, as its specification says.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.economy.records import Masks, masked
from ctxmgr.core.economy.stream_turns import replaced, strings
from ctxmgr.core.economy.turn_masks import user_key
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart, AnswerText
from ctxmgr.core.objects.envelope import TURN

_PATH: Final = re.compile(r"(id=[0-9a-f]{64} type=file path=)(.*)( file_type=.*\n)")


def find_masks(context: Context, find: Callable[[str], Masks]) -> dict[str, Masks]:
    """Return the positions of the secrets of a plain context; ``find`` finds those of a text."""
    return {key: masks for key, text in _texts(context) if text and (masks := find(text))}


def masked_context(context: Context, masks: Mapping[str, Masks]) -> Context:
    """Return a plain context with the secrets replaced that are listed."""
    if not masks:
        return context
    shown = {key: masked(text, masks[key]) for key, text in _texts(context) if key in masks}
    turns = context.transcript.turns
    by_turn: dict[str, dict[str, str]] = {}
    for key, text in shown.items():
        kind, _, place = key.partition(":")
        if kind == TURN:
            by_turn.setdefault(place.partition(":")[0], {})[key] = text
    return replace(
        context,
        pool=Pool(_entry(entry, shown) for entry in context.pool.entries),
        transcript=Transcript(
            _turn(turn, number, by_turn[str(number)]) if str(number) in by_turn else turn
            for number, turn in enumerate(turns, start=1)
        ),
        user=shown.get(user_key(len(turns) + 1), context.user),
        active=tuple(_active(block, shown) for block in context.active),
    )


def _texts(context: Context) -> Iterator[tuple[str, str]]:
    for entry in context.pool.entries:
        line = _PATH.fullmatch(entry.line)
        if line is not None:
            yield f"name:{entry.object_id}", line[2]
    turns = context.transcript.turns
    for number, turn in enumerate(turns, start=1):
        yield user_key(number), turn.user
        for index, part in enumerate(turn.parts):
            yield from _part_texts(part, f"{TURN}:{number}:{index}")
    yield user_key(len(turns) + 1), context.user
    for block in context.active:
        yield f"active:{block.object_id}", block.content


def _part_texts(part: AnswerPart, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, AnswerText):
        yield key, part.text
    elif isinstance(part, AnswerCall):
        for path, text in strings(part.args):
            yield f"{key}{path}", text
        yield f"{key}!", part.output or ""


def _entry(entry: PoolEntry, shown: Mapping[str, str]) -> PoolEntry:
    path = shown.get(f"name:{entry.object_id}")
    if path is None:
        return entry
    line = _PATH.sub(lambda match: f"{match[1]}{path}{match[3]}", entry.line)
    return PoolEntry(object_id=entry.object_id, line=line)


def _turn(turn: ShownTurn, number: int, shown: Mapping[str, str]) -> ShownTurn:
    """Return a turn with its texts that are listed, which are of no other turn."""
    prefix = f"{TURN}:{number}:"
    return ShownTurn(
        shown.get(user_key(number), turn.user),
        tuple(_part(part, f"{prefix}{index}", shown) for index, part in enumerate(turn.parts)),
    )


def _part(part: AnswerPart, key: str, shown: Mapping[str, str]) -> AnswerPart:
    if isinstance(part, AnswerText):
        return AnswerText(text=shown.get(key, part.text))
    if isinstance(part, AnswerCall):
        others = {
            path.removeprefix(key): text
            for path, text in shown.items()
            if path.startswith(f"{key}/")
        }
        args = replaced(part.args, others) if others else part.args
        return replace(part, args=args, output=shown.get(f"{key}!", part.output))
    return part


def _active(block: ActiveBlock, shown: Mapping[str, str]) -> ActiveBlock:
    content = shown.get(f"active:{block.object_id}")
    return block if content is None else replace(block, content=content)
