"""What compiled contexts hold of the evidence, what they cost, and how long compiling takes.

    evidence   conversations of LoCoMo as notes in one folder tree, questions as messages: the share
               of the turns with the answer in 8,192 compiled tokens, against all notes
    speed      2,000 generated notes and 200 topics, a new message each time; notes do not change

The notes are of today: what is measured is the choice among them, not their age.
"""

import gc
import random
import time
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from ctxmgr.bench.knowledge.questions import QuestionSet
from ctxmgr.bench.report import Figure, Say
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.knowledge.compiler.compiled import KnowledgeFile
from ctxmgr.knowledge.compiler.context_compiler import ContextCompiler
from ctxmgr.knowledge.compiler.note_pool import NotePool
from ctxmgr.knowledge.config import KnowledgeConfig
from ctxmgr.knowledge.topics.topic import ActivationMode, Priority, Topic

if TYPE_CHECKING:
    from ctxmgr.search.embedder import Embedder

EVIDENCE_MIN: Final = 0.95
COST_MAX: Final = 0.1
COMPILE_MS_MAX: Final = 30.0
NOTE_CHARS: Final = 475
"""Of a note without its date: a few turns, so that it can be shown whole."""
NOTES: Final = 2_000
TOPICS: Final = 200
ROUNDS: Final = 200
WORDS: Final = 2_000
NOTE_WORDS: Final = 120
MESSAGE_WORDS: Final = 12
SEED: Final = 14


def evidence_figures(
    sets: Sequence[QuestionSet], embedder: "Embedder", *, say: Say
) -> list[Figure]:
    """Ask each question of all conversations together."""
    files: list[KnowledgeFile] = []
    places: dict[tuple[int, str, int], str] = {}
    for number, questions in enumerate(sets):
        for path, text, turns in _notes(number, questions):
            files.append(KnowledgeFile(path=path, text=text, modified=0, category="reference"))
            places |= {(number, source, turn): path for source, turn in turns}
    compiler = ContextCompiler(KnowledgeConfig(), relevance=NotePool(embedder))
    count = TokenCounter().count
    whole = sum(count(file.text) for file in files)
    shares, tokens = [], []
    for number, questions in enumerate(sets):
        say(f"knowledge: compiling for conversation {number + 1} of {len(sets)}")
        for question in questions.questions:
            if not question.has_answer:
                continue
            compiled = compiler.plan(question.text, [], [], files, now=0)
            shown = {section.path for section in compiled.included}
            wanted = [places[number, source, turn] for source, turn in question.turns]
            shares.append(fmean(path in shown for path in wanted))
            tokens.append(compiled.tokens)
    cost, share = fmean(tokens) / whole, fmean(shares)
    against = f"all {len(files):,} notes: {whole:,} tokens"
    return [
        Figure(
            what=f"LoCoMo, evidence in 8,192 compiled tokens ({len(shares):,} questions)",
            value=share,
            bound=f"at least {EVIDENCE_MIN:g}",
            meets=round(share, 4) >= EVIDENCE_MIN if len(sets) > 1 else None,
            against=against,
        ),
        Figure(
            what="tokens of compiled contexts, share of all notes",
            value=cost,
            bound=f"at most {COST_MAX:g}",
            meets=cost <= COST_MAX if len(sets) > 1 else None,
            against=against,
            note="" if len(sets) > 1 else "one conversation is smaller than the budget allows",
        ),
    ]


def compile_speed(embedder: "Embedder", *, quick: bool, say: Say) -> Figure:
    """Time compilations, without the gate; a short run has fewer notes, and no target."""
    notes, rounds = (NOTES // 10, ROUNDS // 10) if quick else (NOTES, ROUNDS)
    say(f"knowledge: compiling {notes:,} notes and {TOPICS} topics")
    chance = random.Random(SEED)  # noqa: S311 (generated text)
    words = [f"w{chance.randrange(36**5):x}" for _ in range(WORDS)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    files = [
        KnowledgeFile(
            path=f"knowledge/reference/{number % 100:02}/{number:04}.md",
            text=text(NOTE_WORDS),
            modified=0,
            category="reference",
        )
        for number in range(notes)
    ]
    topics = [
        Topic(
            name=f"topic-{number}",
            path=f"topics/topic-{number}.md",
            description=text(MESSAGE_WORDS),
            instructions=text(NOTE_WORDS // 4),
            keywords=tuple(chance.choices(words, k=5)),
            subscriptions=(chance.choice(files).path,),
            activation=ActivationMode.AUTO,
            priority=chance.choice(list(Priority)),
        )
        for number in range(TOPICS)
    ]
    compiler = ContextCompiler(KnowledgeConfig(), relevance=NotePool(embedder))
    compiler.plan(text(MESSAGE_WORDS), topics, [], files, now=0)
    times = []
    gc.collect()
    gc.freeze()  # a collection while this is timed does not scan what other figures have left
    for _ in range(rounds):
        message, active = text(MESSAGE_WORDS), chance.sample(topics, 3)
        start = time.perf_counter()
        compiler.plan(message, active, [], files, now=0)
        times.append(1000 * (time.perf_counter() - start))
    gc.unfreeze()
    times.sort()
    slow = times[int(0.99 * len(times))]
    return Figure(
        what=f"compile with {notes:,} notes and {TOPICS} topics, p99 in ms",
        value=slow,
        bound="" if quick else f"at most {COMPILE_MS_MAX:g} ms",
        meets=None if quick else slow <= COMPILE_MS_MAX,
        against="–",
        note=f"median {times[len(times) // 2]:.1f} ms; notes in memory, without the gate",
    )


def _notes(number: int, questions: QuestionSet) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """Yield the notes of a conversation: path, text under its date, and the turns in it."""
    for source in questions.sources:
        heading = "" if source.day is None else f"{source.day:%d %B %Y}\n"
        lines: list[str] = []
        turns: list[tuple[str, int]] = []
        part = 0
        for turn, (piece, text) in enumerate(zip(source.pieces, source.piece_texts(), strict=True)):
            line = f"{piece.speaker}: {text}"
            if lines and sum(map(len, lines)) + len(lines) + len(line) > NOTE_CHARS:
                yield _path(number, source.source_id, part), heading + "\n".join(lines), turns
                lines, turns, part = [], [], part + 1
            lines.append(line)
            turns.append((source.source_id, turn))
        yield _path(number, source.source_id, part), heading + "\n".join(lines), turns


def _path(number: int, source_id: str, part: int) -> str:
    return f"knowledge/reference/{number}/{source_id}/{part:02}.md"
