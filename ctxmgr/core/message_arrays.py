"""Which turns of a harness's own array are new. Pure.

A harness may hand over its whole array each time, and may have shortened it (compaction), replaced
its beginning by a summary, or started it anew. Counting would then lose or repeat turns, so they
are recognised by what they say:

    known    … c d e                 the end of the chat
    given    S d e f g               its longest end that is in the array: what follows is new
    given    x y                     none of it is: whatever the chat does not hold is new
"""

from collections import Counter
from collections.abc import Sequence

from ctxmgr.core.infrastructure import Turn


def new_turns(known: Sequence[Turn], given: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns of the array that the chat does not have yet, in their order."""
    chat = [turn.canonical for turn in known]
    array = [turn.canonical for turn in given]
    end = _end_of_known(chat, array)
    if end is not None:
        return tuple(given[end:])
    there = Counter(chat)
    new = []
    for turn in given:
        if there[turn.canonical]:
            there[turn.canonical] -= 1
        else:
            new.append(turn)
    return tuple(new)


def _end_of_known(chat: Sequence[bytes], array: Sequence[bytes]) -> int | None:
    """Return where in the array the longest end of the chat ends; None: it is not there."""
    best: tuple[int, int] | None = None
    for end in range(len(array), 0, -1):
        length = _common_end(chat, array[:end])
        if length and (best is None or length > best[0]):
            best = (length, end)
        if best is not None and best[0] >= end - 1:
            break
    return None if best is None else best[1]


def _common_end(chat: Sequence[bytes], array: Sequence[bytes]) -> int:
    length = 0
    while length < min(len(chat), len(array)) and chat[-1 - length] == array[-1 - length]:
        length += 1
    return length
