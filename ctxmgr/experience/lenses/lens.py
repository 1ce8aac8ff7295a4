"""Lenses: text or a hidden state in, scores of concepts out. Pure.

observation ─► lenses ─► LensReading.all       every score: for the audit log
                   └───► LensReading.visible   the k highest that the policy shows: for
                                               the experience log, which the agent reads
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ctxmgr.errors import Incorrect

TOP_K: Final = 10
"""Activations per timestep that the experience log keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a lens looks at: one moment of a model's input or output."""

    text: str
    hidden_state: Sequence[float] | None = None
    """The model's activations at this moment, for lenses that were trained on them."""


class Lens(Protocol):
    """Scores concepts. The same observation always gives the same scores."""

    @property
    def name(self) -> str: ...

    def score(self, observation: Moment) -> Mapping[str, float]:
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
    """What the lenses say about one observation."""

    all: Mapping[str, float]
    visible: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenses:
    """Several lenses under one policy."""

    lenses: tuple[Lens, ...]
    policy: LensPolicy = LensPolicy()
    top_k: int = TOP_K

    def read(self, observation: Moment) -> LensReading:
        """Ask every lens; a concept that several score has its highest score.

        ``Incorrect`` if a lens returns something that is not a score.
        """
        scores: dict[str, float] = {}
        for lens in self.lenses:
            for concept_id, score in lens.score(observation).items():
                if not 0 <= score <= 1:
                    raise Incorrect(f"the lens {lens.name} scores {concept_id} {score}, not 0 to 1")
                scores[concept_id] = max(score, scores.get(concept_id, 0.0))
        shown = {each: score for each, score in scores.items() if self.policy.visible(each)}
        return LensReading(all=scores, visible=highest(shown, self.top_k))


def highest(scores: Mapping[str, float], k: int) -> dict[str, float]:
    """Return the k highest scores, highest first; equal ones by concept id."""
    return dict(heapq.nsmallest(k, scores.items(), key=lambda item: (-item[1], item[0])))
