"""The question sets of the search benchmark. Reads files.

LoCoMo (conversations of two people in dated sessions, questions with the turns that answer them)
and LongMemEval (a pool of dated sessions of one user each, questions with the sessions that answer
them). Neither is shipped: the folder is an argument of the benchmark.
"""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.errors import Incorrect
from ctxmgr.search.pieces import SearchSource

Turn: TypeAlias = tuple[str, int]
"""A source's id and the number of the piece."""

FILE_BYTES_MAX: Final = 500_000_000
"""Of a file as text. LongMemEval's largest set has some 300 MB."""

ADVERSARIAL: Final = 5
"""LoCoMo's category of questions that have no answer; their evidence misleads."""

_EVIDENCE: Final = re.compile(r"D:?(\d+):(\d+)")
_LOCOMO_DATE: Final = "%I:%M %p on %d %B, %Y"
_LONGMEMEVAL_DATE: Final = "%Y/%m/%d"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestQuestion:
    text: str
    now: date | None
    sources: frozenset[str]
    """That hold the answer."""
    turns: frozenset[Turn] = frozenset()
    has_answer: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """Sources that are searched together, and questions about them."""

    sources: tuple[SearchSource, ...]
    questions: tuple[TestQuestion, ...]


def read_locomo(folder: Path) -> list[QuestionSet]:
    """Return one set per conversation."""
    return [_conversation(entry) for path in _files(folder, "locomo*") for entry in _read(path)]


def read_longmemeval(folder: Path) -> QuestionSet:
    """Return all sessions as one set, with the user's turns as pieces."""
    sources: dict[str, SearchSource] = {}
    questions = []
    for path in _files(folder, "longmemeval*"):
        for entry in _read(path):
            sessions = zip(
                entry["haystack_session_ids"],
                entry["haystack_dates"],
                entry["haystack_sessions"],
                strict=True,
            )
            for session_id, day, turns in sessions:
                spoken = [(None, turn["content"]) for turn in turns if turn["role"] == "user"]
                sources[session_id] = SearchSource.from_turns(
                    spoken, source_id=session_id, category="conversation", day=_day(day)
                )
            if not entry["question_id"].endswith("_abs"):
                questions.append(
                    TestQuestion(
                        text=entry["question"],
                        now=_day(entry["question_date"]),
                        sources=frozenset(entry["answer_session_ids"]),
                    )
                )
    return QuestionSet(sources=tuple(sources.values()), questions=tuple(questions))


def read_sessions(folder: Path) -> list[SearchSource]:
    """Return the sessions of LongMemEval with every turn, cut like notes."""
    sources: dict[str, SearchSource] = {}
    for path in _files(folder, "longmemeval*"):
        for entry in _read(path):
            for session_id, day, turns in zip(
                entry["haystack_session_ids"],
                entry["haystack_dates"],
                entry["haystack_sessions"],
                strict=True,
            ):
                text = "\n".join(turn["content"] for turn in turns)
                sources[session_id] = SearchSource.from_text(
                    text, source_id=session_id, category="conversation", day=_day(day)
                )
    return list(sources.values())


def _files(folder: Path, name: str) -> list[Path]:
    found = sorted((*folder.glob(f"{name}.json"), *folder.glob(f"{name}.json.gz")))
    if not found:
        raise Incorrect(f"{folder} has no {name}.json or {name}.json.gz; pass another folder")
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise Incorrect(f"{path} has more than {FILE_BYTES_MAX} bytes of text")
    entries = orjson.loads(data)
    if not isinstance(entries, list):
        raise Incorrect(f"{path} is not a list of conversations or questions")
    return entries


def _conversation(entry: Mapping[str, Any]) -> QuestionSet:
    conversation = entry["conversation"]
    sources = []
    places: dict[tuple[int, int], Turn] = {}
    number = 1
    while f"session_{number}_date_time" in conversation:
        turns = conversation.get(f"session_{number}") or []
        if turns:
            source_id = f"session_{number:02}"
            for piece, turn in enumerate(turns):
                places[number, int(turn["dia_id"].rpartition(":")[2])] = (source_id, piece)
            written = conversation[f"session_{number}_date_time"]
            sources.append(
                SearchSource.from_turns(
                    [(turn["speaker"], _turn_text(turn)) for turn in turns],
                    source_id=source_id,
                    category="conversation",
                    day=datetime.strptime(written, _LOCOMO_DATE).date(),  # noqa: DTZ007
                )
            )
        number += 1
    questions = []
    for question in entry["qa"]:
        named = [
            (int(session), int(turn))
            for evidence in question["evidence"]
            for session, turn in _EVIDENCE.findall(evidence)
        ]
        found = frozenset(places[place] for place in named if place in places)
        if found:
            questions.append(
                TestQuestion(
                    text=question["question"],
                    now=None,
                    sources=frozenset(source for source, _ in found),
                    turns=found,
                    has_answer=question["category"] != ADVERSARIAL,
                )
            )
    return QuestionSet(sources=tuple(sources), questions=tuple(questions))


def _turn_text(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} {caption}" if caption else str(turn["text"])


def _day(text: str) -> date:
    return datetime.strptime(text[:10], _LONGMEMEVAL_DATE).date()  # noqa: DTZ007
