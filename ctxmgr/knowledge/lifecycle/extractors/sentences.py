"""The sentences of a transcript, with the turns they come from. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ctxmgr.knowledge.notes.sections import one_line, outside_code
from ctxmgr.knowledge.transcripts.transcript import Role, SessionTranscript

SENTENCE_CHARS_MIN: Final = 12
SENTENCE_CHARS_MAX: Final = 400
"""A longer one is not a sentence but pasted text."""

_END: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'`(\[]?[A-Z0-9])")
_LIST: Final = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    turn: int
    """From 1."""
    role: Role


def sentences(transcript: SessionTranscript) -> Iterator[Sentence]:
    """Yield what was said, sentence by sentence; questions, quotes and code are left out."""
    for number, turn in enumerate(transcript.turns, start=1):
        if turn.suffix is not None or turn.role is Role.SYSTEM:
            continue
        for _, line in outside_code(turn.text):
            if line.lstrip().startswith((">", "|", "#")):
                continue
            for piece in _END.split(_LIST.sub("", line)):
                text = one_line(piece)
                if SENTENCE_CHARS_MIN <= len(text) <= SENTENCE_CHARS_MAX and text[-1] != "?":
                    yield Sentence(text, number, turn.role)
