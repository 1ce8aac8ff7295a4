"""Secrets in what the user and the assistant said, and in the arguments of calls. Pure.

    turn:7:user        the user's text of turn 7
    turn:7:0           the text of the first part of its answer
    turn:7:1/command   an argument of its second part, by its JSON pointer
    turn:7:1!          the output of a context tool

The keys stand next to the ids of tool calls in the ``masks`` of a turn record; an id cannot begin
with ``turn:``. Stored turns keep their texts: a turn is masked when it is shown, at the recorded
positions, so that a past prompt is rebuilt whatever a later release recognises.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ctxmgr.core.economy.records import Masks, masked
from ctxmgr.core.economy.stream_turns import replaced, strings
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.envelope import TURN


def user_key(number: int) -> str:
    """Return the key of the user's text of a turn."""
    return f"{TURN}:{number}:user"


def masked_turn_number(key: str) -> int | None:
    """Return the turn that a key is of; None for the id of a tool call."""
    return int(key.split(":")[1]) if key.startswith(f"{TURN}:") else None


def turn_texts(turn: Turn, *, number: int) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of everything that was said in a turn, and of its arguments."""
    yield user_key(number), turn.user
    for index, part in enumerate(turn.assistant):
        key = f"{TURN}:{number}:{index}"
        if isinstance(part.get("text"), str):
            yield key, part["text"]
        if isinstance(part.get("output"), str):
            yield f"{key}!", part["output"]
        for path, text in strings(part.get("args", {})):
            yield f"{key}{path}", text


def masked_turn(turn: Turn, *, number: int, masks: Mapping[str, Masks]) -> Turn:
    """Return a turn as it is shown: with the secrets replaced that were recorded."""
    shown = {
        key: masked(text, masks[key])
        for key, text in turn_texts(turn, number=number)
        if masks.get(key)
    }
    if not shown:
        return turn
    parts = tuple(
        _masked_part(part, f"{TURN}:{number}:{index}", shown)
        for index, part in enumerate(turn.assistant)
    )
    return replace(turn, user=shown.get(user_key(number), turn.user), assistant=parts)


def _masked_part(part: Mapping[str, Any], key: str, shown: Mapping[str, str]) -> dict[str, Any]:
    changed = dict(part)
    if key in shown and "text" in part:
        changed["text"] = shown[key]
    if f"{key}!" in shown:
        changed["output"] = shown[f"{key}!"]
    if "args" in part:
        arguments = {path.removeprefix(key): text for path, text in shown.items()}
        changed["args"] = replaced(part["args"], arguments)
    return changed
