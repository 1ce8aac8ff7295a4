"""Tier 3, the gate: one question to a model, YES or NO, within a deadline. Waits for the model.

Without a model, or if it does not answer in time, a rule decides: the message has to share two
terms with the topic's name, description and keywords, or name one of its keywords of several words.

Answers of a model are kept, by message and topic. The rule's are not: it costs nothing, and after a
failure the model should be asked again.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ctxmgr.core.model import Ledger, Model, Question, ask, cut_at_word
from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.topics.topic import Topic
from ctxmgr.search.terms import stem, terms, words

GATE_SECONDS: Final = 1.0
"""For all questions about one message: a gate answers in some 0.2 s, and the prompt waits."""

GATE_QUESTIONS_MAX: Final = 8
"""Questions about one message; the rule decides about further topics."""

GATE_TOKENS: Final = 1
CACHED_ANSWERS_MAX: Final = 1_000
MESSAGE_CHARS: Final = 500
DESCRIPTION_CHARS: Final = 200
SHARED_TERMS_MIN: Final = 2
PURPOSE: Final = "gate"

_log = logging.getLogger(__name__)

_QUESTION: Final = """\
A message to an assistant, and a topic with further instructions for it.
Are the instructions of the topic needed to answer the message? Answer YES or NO.

Message: {message}

Topic {name}: {description}

Answer:"""


class Decider(StrEnum):
    """Who decided."""

    MODEL = "model"
    CACHE = "cache"
    RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """The answer about one topic."""

    approved: bool
    decider: Decider


class GatedActivator:
    """Asks whether a topic should be activated. ``ledger`` says what the questions cost."""

    def __init__(
        self,
        model: Model | None = None,
        *,
        seconds: float = GATE_SECONDS,
        output_tokens_max: int = GATE_TOKENS,
    ) -> None:
        self._model = model
        self._seconds = seconds
        self._output_tokens_max = output_tokens_max
        self._answers: OrderedDict[tuple[str, str], bool] = OrderedDict()
        self.ledger = Ledger()

    async def should_activate(self, message: str, topic: Topic) -> bool:
        """Return whether a message needs a topic."""
        (answer,) = await self.decide(message, [topic])
        return answer.approved

    async def decide(self, message: str, topics: Sequence[Topic]) -> list[GateAnswer]:
        """Answer for several topics at once, most important first."""
        known = [self._known(message, topic) for topic in topics]
        asked = [topic for topic, answer in zip(topics, known, strict=True) if answer is None]
        answers = iter(await self._ask_all(message, asked[:GATE_QUESTIONS_MAX]))
        decided = []
        for topic, answer in zip(topics, known, strict=True):
            found = answer if answer is not None else next(answers, None)
            decided.append(
                found or GateAnswer(approved=approves_by_rule(message, topic), decider=Decider.RULE)
            )
        return decided

    def _known(self, message: str, topic: Topic) -> GateAnswer | None:
        key = (message_hash(message), topic.name)
        if key not in self._answers:
            return None
        self._answers.move_to_end(key)
        return GateAnswer(approved=self._answers[key], decider=Decider.CACHE)

    async def _ask_all(self, message: str, topics: Sequence[Topic]) -> list[GateAnswer | None]:
        """Ask about all topics at once; None for those without an answer in time."""
        if self._model is None or not topics:
            return [None] * len(topics)
        tasks = [asyncio.create_task(self._ask(self._model, message, topic)) for topic in topics]
        try:
            await asyncio.wait(tasks, timeout=self._seconds)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        return [self._result(result) for result in results]

    async def _ask(self, model: Model, message: str, topic: Topic) -> GateAnswer:
        question = Question(
            text=gate_question(message, topic),
            purpose=PURPOSE,
            output_tokens_max=self._output_tokens_max,
            temperature=0.0,
        )
        answer = await ask(model, question)
        self.ledger = self.ledger.charged(answer.charge)
        approved = is_approval(answer.text)
        self._answers[message_hash(message), topic.name] = approved
        while len(self._answers) > CACHED_ANSWERS_MAX:
            self._answers.popitem(last=False)
        return GateAnswer(approved=approved, decider=Decider.MODEL)

    def _result(self, result: GateAnswer | BaseException) -> GateAnswer | None:
        if isinstance(result, GateAnswer):
            return result
        if isinstance(result, asyncio.CancelledError):
            _log.warning("the gate did not answer in %g s; the rule decides", self._seconds)
            return None
        if isinstance(result, CtxmgrError):
            _log.warning("the gate failed, the rule decides: %s", result)
            return None
        raise result


def gate_question(message: str, topic: Topic) -> str:
    """Return the question about one topic."""
    return _QUESTION.format(
        message=cut_at_word(message, chars_max=MESSAGE_CHARS),
        name=topic.name,
        description=cut_at_word(topic.description, chars_max=DESCRIPTION_CHARS),
    )


def is_approval(answer: str) -> bool:
    """Whether an answer approves: it begins with YES (002-R119)."""
    return answer.strip().upper().startswith("YES")


def approves_by_rule(message: str, topic: Topic) -> bool:
    """Decide without a model."""
    said = set(terms(message[:MESSAGE_CHARS]))
    if len(said & set(terms(topic.short_text))) >= SHARED_TERMS_MIN:
        return True
    spoken = f" {' '.join(map(stem, words(message[:MESSAGE_CHARS])))} "
    phrases = (" ".join(map(stem, words(keyword))) for keyword in topic.keywords)
    return any(" " in phrase and f" {phrase} " in spoken for phrase in phrases)


def message_hash(message: str) -> str:
    """Identify a message in the cache and the log, which do not hold its text."""
    return hashlib.sha256(message.encode(errors="replace")).hexdigest()
