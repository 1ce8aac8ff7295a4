"""How much of what answers a question is in the text for a prompt: LoCoMo's turns as episodes.

Every turn of a conversation is an episode of its session. A question is asked with the activity
``recall``. A turn counts as found if a line of the text is about it, at its summary or longer; how
many of those lines have the whole turn is in the note. FTS5 shows its best turns with two
neighbours each side, as in ``ctxmgr bench knowledge``; its tokens are characters / 4.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, time
from statistics import fmean
from typing import Final

from ctxmgr.app import open_store
from ctxmgr.bench.knowledge.plain_fts5 import PlainFts5
from ctxmgr.bench.knowledge.questions import QuestionSet, TestQuestion, Turn
from ctxmgr.bench.report import Figure, Say
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Episode
from ctxmgr.memory.records.levels import levels_by_rule
from ctxmgr.memory.records.memory import (
    Author,
    Memory,
    MemoryKind,
    Origin,
    Visibility,
    stored_memory,
)
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS
from ctxmgr.memory.tiers.assembly import Signals

BUDGETS: Final = ((2_000, 0.90), (4_000, 0.94))
WHO: Final = Principal(user_id="ada", project_id="locomo")
NOW: Final = 1_790_000_000_000
TITLE_CHARS: Final = 100
NEIGHBOURS: Final = 2
CHARS_PER_TOKEN: Final = 4
HEADING_TOKENS: Final = 6
SEARCHED: Final = 2_000
WRITTEN_AT_ONCE: Final = 2_000


async def conversation_figures(sets: Sequence[QuestionSet], *, say: Say) -> list[Figure]:
    """Compare assembled contexts with FTS5, conversation by conversation."""
    found: dict[tuple[str, int], list[float]] = {}
    whole: list[float] = []
    for number, questions in enumerate(sets, start=1):
        say(f"memory: LoCoMo, conversation {number} of {len(sets)}")
        async with await open_store("sqlite://:memory:", kinds=MEMORY_KINDS) as store:
            turns = await _stored_turns(store, questions)
            memory = LivingMemory(store, WHO, now=lambda: NOW)
            with closing(PlainFts5(_texts(questions))) as plain:
                for question in questions.questions:
                    if not question.has_answer:
                        continue
                    for budget, _ in BUDGETS:
                        shown, complete = await _shown(memory, turns, question, budget)
                        share = len(question.turns & shown) / len(question.turns)
                        found.setdefault(("memory", budget), []).append(share)
                        whole.append(complete)
                        kept = _within_budget(plain, questions, question, budget)
                        share = len(question.turns & kept) / len(question.turns)
                        found.setdefault(("FTS5", budget), []).append(share)
    means = {key: fmean(values) for key, values in found.items()}
    count = len(found["memory", BUDGETS[0][0]])
    return [
        Figure(
            what=f"LoCoMo, evidence in {budget:,} tokens of context ({count:,} questions)",
            value=means["memory", budget],
            bound=f"at least {bound:g}, and above FTS5",
            meets=round(means["memory", budget], 4) >= bound
            and means["memory", budget] > means["FTS5", budget],
            against=f"FTS5, turns: {means['FTS5', budget]:.3f}",
            note=f"{fmean(whole):.0%} of the lines have the whole turn, the others its summary",
        )
        for budget, bound in BUDGETS
    ]


async def _stored_turns(store: Store, questions: QuestionSet) -> Mapping[str, Turn]:
    """Store every turn as an episode; return the turn of each memory."""
    count = TokenCounter().count
    turns: dict[str, Turn] = {}
    operations = []
    for number, source in enumerate(questions.sources):
        assert source.day is not None
        at = int(datetime.combine(source.day, time(), tzinfo=UTC).timestamp() * 1_000)
        for piece, (text, place) in enumerate(
            zip(source.piece_texts(), source.pieces, strict=True)
        ):
            body = Episode(title=" ".join(text.split())[:TITLE_CHARS] or "-", full_narrative=text)
            memory = Memory(
                id=f"00000000-0000-4000-8000-{number:06x}{piece:06x}",
                body=body,
                kind=MemoryKind.NOTE,
                levels=levels_by_rule(body, count),
                author=Author.RULE,
                visibility=Visibility.USER_PRIVATE,
                user_id=WHO.user_id,
                project_id=WHO.project_id,
                created_at=at,
                valid_from=at,
                origin=Origin(session_id=source.source_id, turn=piece + 1),
                tags=() if place.speaker is None else (f"@{place.speaker}",),
            )
            turns[memory.id] = source.source_id, piece
            operations.append(Put(stored_memory(memory), valid_from=at))
    for start in range(0, len(operations), WRITTEN_AT_ONCE):
        await store.commit(operations[start : start + WRITTEN_AT_ONCE])
    return turns


async def _shown(
    memory: LivingMemory, turns: Mapping[str, Turn], question: TestQuestion, budget: int
) -> tuple[set[Turn], float]:
    signals = Signals(message=question.text, activity="recall")
    assembled = await memory.assemble_context(budget, signals=signals)
    lines = [item for item in assembled.shown if item.tier == 2]  # noqa: PLR2004 -- summaries
    known = memory.resident.shortlist.memories
    complete = [item.text == " ".join(known[item.id].levels.full.split()) for item in lines]
    return {turns[item.id] for item in lines}, fmean(complete) if complete else 1.0


def _texts(questions: QuestionSet) -> list[str]:
    return [text for source in questions.sources for text in source.piece_texts()]


def _within_budget(
    plain: PlainFts5, questions: QuestionSet, question: TestQuestion, budget: int
) -> set[Turn]:
    """Return what FTS5 shows: its best turns with their neighbours, as they fit."""
    places = [
        (source, piece) for source in questions.sources for piece in range(len(source.pieces))
    ]
    used, kept, headings = 0.0, dict[Turn, None](), set[str]()
    for place in plain.search(question.text, limit=SEARCHED):
        source, piece = places[place]
        near = range(max(0, piece - NEIGHBOURS), min(len(source.pieces), piece + NEIGHBOURS + 1))
        for number in near:
            slice_ = source.pieces[number]
            cost = (slice_.end - slice_.start) / CHARS_PER_TOKEN
            cost += HEADING_TOKENS if source.source_id not in headings else 0
            if (source.source_id, number) not in kept and used + cost <= budget:
                used += cost
                kept[source.source_id, number] = None
                headings.add(source.source_id)
    return set(kept)
