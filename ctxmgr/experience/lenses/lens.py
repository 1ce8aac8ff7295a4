"""Lenses: text or a hidden state in, scores of concepts out. Pure.

moment ─► lenses ─► LensReading.all       every score: for the audit log
                   └───► LensReading.visible   the k highest that the policy shows: for
                                               the experience log, which the agent reads

A lens may be anybody's code. If it fails, its scores are missing from this reading, and
``LensReading.failed`` says why; it is asked again at the next moment.
"""

import heapq
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ctxmgr.errors import Incorrect
from ctxmgr.experience.concepts.concept import CONCEPT_ID_CHARS_MAX

PART_CHARS: Final = 300
"""A part of a long text: as many words as a lens looks at."""

PARTS_MAX: Final = 8

FAILURE_CHARS_MAX: Final = 500

TOP_K: Final = 10
"""Activations per timestep that the experience log keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a lens looks at: one moment of a model's input or output."""

    text: str
    hidden_state: Sequence[float] | None = None
    """The model's activations at this moment, for lenses that were trained on them."""


class Lens(Protocol):
    """Scores concepts. The same moment always gives the same scores."""

    @property
    def name(self) -> str: ...

    def score(self, moment: Moment) -> Mapping[str, float]:
        """Return concept id → score (0 to 1). Concepts that are left out score 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LensPolicy:
    """Which concepts the agent may see."""

    hidden: frozenset[str] = frozenset()
    """Concept ids. One that ends in ``*`` hides all ids that begin so."""

    def visible(self, concept_id: str) -> bool:
        return concept_id not in self.hidden and not any(
            entry.endswith("*") and concept_id.startswith(entry[:-1]) for entry in self.hidden
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LensReading:
    """What the lenses say about one moment."""

    all: Mapping[str, float]
    visible: Mapping[str, float]
    failed: Mapping[str, str] = field(default_factory=dict)
    """The names of lenses whose scores are missing, and what was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenses:
    """Several lenses under one policy."""

    lenses: tuple[Lens, ...]
    policy: LensPolicy = LensPolicy()
    top_k: int = TOP_K

    def read(self, moment: Moment) -> LensReading:
        """Ask every lens; a concept that several score has its highest score."""
        return self._reading([moment])

    def read_text(self, text: str) -> LensReading:
        """Read a whole text, such as a message: the highest score in any part of it.

        Of a long text, the first and the last parts are read.
        """
        return self._reading([Moment(text=part) for part in _parts(text)])

    def _reading(self, moments: Sequence[Moment]) -> LensReading:
        scores: dict[str, float] = {}
        failed: dict[str, str] = {}
        for lens in self.lenses:
            try:
                readings = [_checked(lens.score(moment)) for moment in moments]
            except Exception as error:  # noqa: BLE001 (whatever a lens does wrong)
                failed[lens.name] = f"{type(error).__name__}: {error}"[:FAILURE_CHARS_MAX]
                continue
            for concept_id, score in (item for each in readings for item in each.items()):
                scores[concept_id] = max(score, scores.get(concept_id, 0.0))
        shown = {each: score for each, score in scores.items() if self.policy.visible(each)}
        return LensReading(all=scores, visible=highest(shown, self.top_k), failed=failed)


def _checked(scores: Mapping[str, float]) -> Mapping[str, float]:
    """Return what a lens returned; ``Incorrect`` if the log could not store it."""
    for concept_id, score in scores.items():
        if not (isinstance(concept_id, str) and 0 < len(concept_id) <= CONCEPT_ID_CHARS_MAX):
            raise Incorrect(f"{concept_id!r:.80} is not a concept id")
        if not 0 <= score <= 1:
            raise Incorrect(f"it scores {concept_id!r:.80} {score}, not 0 to 1")
        concept_id.encode()
    return scores


def highest(scores: Mapping[str, float], k: int) -> dict[str, float]:
    """Return the k highest scores, highest first; equal ones by concept id."""
    return dict(heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0])))


def _parts(text: str) -> list[str]:
    """Cut a text at spaces into parts of about ``PART_CHARS``; at most ``PARTS_MAX`` of them."""
    half = PARTS_MAX // 2 * PART_CHARS
    if len(text) > 2 * half:
        text = f"{text[:half]} {text[-half:]}"
    return textwrap.wrap(text, PART_CHARS) or [""]
