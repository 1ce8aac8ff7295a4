"""Which files will be touched next for the first time, with a probability. Pure.

What speaks for a file: that it was named lately and how often, that a touched file imports it,
that earlier sessions touched it together with what is touched now, that it was touched often, and
that it lies beside what was touched last. A logistic model weighs this. It learns from every
prediction whose outcome is known, so that its probabilities follow what happens: 0.3 comes true in
about three of ten cases.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log1p
from typing import Final, TypeAlias

HORIZON: Final = 5
"""Calls within which a prediction may come true."""

CANDIDATES_MAX: Final = 150
"""Files that are weighed at once."""

TOGETHER: Final = 8
"""Calls between two files that were touched together."""

NAMES_LATELY: Final = 10
"""Names after which an earlier one counts half."""

RATE: Final = 0.05
"""How much the model moves with one outcome."""

_Features: TypeAlias = tuple[float, ...]

_NAMES: Final = (
    "",
    "named lately",
    "named often",
    "named by the agent",
    "imported by what was read",
    "touched together before",
    "touched often before",
    "beside what was touched",
)
_WEIGHTS: Final = (-5.0, 3.0, 0.5, 1.0, 0.8, 2.5, 0.8, 0.7)
"""Where the model begins: rough odds, which the first outcomes correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedFile:
    """A file that may be touched soon."""

    path: str
    probability: float
    why: str


@dataclass(kw_only=True)
class _SessionState:
    calls: int = 0
    touched: dict[str, int] = field(default_factory=dict)
    """File → the call that touched it first."""
    order: list[str] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    """File → when it was last named, counted in names."""
    names: int = 0
    times: Counter[str] = field(default_factory=Counter)
    by_agent: dict[str, int] = field(default_factory=dict)
    imported: dict[str, None] = field(default_factory=dict)
    waiting: list[tuple[int, str, _Features]] = field(default_factory=list)
    """Predictions whose outcome is not known yet."""


class FilePredictor:
    """Learns from sessions one after the other, and predicts within the current one."""

    def __init__(self) -> None:
        self.weights = list(_WEIGHTS)
        self._together: dict[str, Counter[str]] = defaultdict(Counter)
        self._before: Counter[str] = Counter()
        self._sessions = 0
        self._now = _SessionState()

    @property
    def touched(self) -> frozenset[str]:
        return frozenset(self._now.touched)

    def knows(self, path: str) -> bool:
        """Whether a file was named or touched before, in this session or an earlier one."""
        return path in self._now.named or path in self._before

    def begin_session(self) -> None:
        """End the current session and learn which files belong together."""
        order = self._now.order
        for place, path in enumerate(order):
            for other in order[max(0, place - TOGETHER) : place]:
                if other != path:
                    self._together[other][path] += 1
                    self._together[path][other] += 1
        self._before.update(set(order))
        self._sessions += bool(order)
        self._settle(final=True)
        self._now = _SessionState()

    def name(self, paths: Iterable[str], *, by_agent: bool = False) -> None:
        """Take in the paths that a message or an output names."""
        for path in paths:
            self._now.names += 1
            self._now.named[path] = self._now.names
            self._now.times[path] += 1
            if by_agent:
                self._now.by_agent[path] = self._now.calls

    def imports(self, paths: Iterable[str]) -> None:
        """Take in what a file that was read imports."""
        self._now.imported.update(dict.fromkeys(paths))

    def touch(self, paths: Iterable[str]) -> None:
        """Take in the files of one call, which may make predictions come true."""
        self._now.calls += 1
        for path in paths:
            self._now.touched.setdefault(path, self._now.calls)
            self._now.order.append(path)
        self._settle(final=False)

    def predict(self, limit: int) -> list[PredictedFile]:
        """Return the files that are most likely touched within ``HORIZON`` calls, best first."""
        scored = []
        for path in self._candidates():
            features = self._features(path)
            self._now.waiting.append((self._now.calls, path, features))
            scored.append((self._probability(features), path, features))
        scored.sort(key=lambda entry: (-entry[0], entry[1]))
        return [
            PredictedFile(path=path, probability=probability, why=self._why(features))
            for probability, path, features in scored[:limit]
        ]

    def _candidates(self) -> list[str]:
        lately = sorted(self._now.named, key=lambda path: -self._now.named[path])
        near: Counter[str] = Counter()
        for path in self._now.order[-TOGETHER:]:
            near.update(self._together.get(path, {}))
        wanted = dict.fromkeys(
            (
                *lately[: CANDIDATES_MAX // 2],
                *(path for path, _ in near.most_common(CANDIDATES_MAX // 4)),
                *(path for path, _ in self._before.most_common(CANDIDATES_MAX // 4)),
                *list(self._now.imported)[-CANDIDATES_MAX // 4 :],
            )
        )
        return [path for path in wanted if path not in self._now.touched]

    def _features(self, path: str) -> _Features:
        now = self._now
        age = now.names - now.named[path] if path in now.named else None
        agent = now.calls - now.by_agent[path] if path in now.by_agent else None
        recent = now.order[-TOGETHER:]
        together = max(
            (
                self._together[other][path] / (1 + sum(self._together[other].values()) / TOGETHER)
                for other in recent
                if other in self._together
            ),
            default=0.0,
        )
        folder = path.rpartition("/")[0]
        return (
            1.0,
            0.0 if age is None else 1 / (1 + age / NAMES_LATELY),
            log1p(now.times[path]),
            0.0 if agent is None else 1 / (1 + agent),
            float(path in now.imported),
            min(1.0, together),
            self._before[path] / (1 + self._sessions),
            float(any(other.rpartition("/")[0] == folder for other in recent[-2:])),
        )

    def _probability(self, features: Sequence[float]) -> float:
        total = sum(weight * value for weight, value in zip(self.weights, features, strict=True))
        return 1 / (1 + exp(-max(-30.0, min(30.0, total))))

    def _why(self, features: Sequence[float]) -> str:
        worth = [weight * value for weight, value in zip(self.weights, features, strict=True)]
        best = max(range(1, len(worth)), key=lambda place: worth[place])
        return _NAMES[best]

    def _settle(self, *, final: bool) -> None:
        """Learn from predictions whose outcome is known by now."""
        left = []
        for made, path, features in self._now.waiting:
            first = self._now.touched.get(path)
            if first is not None and first - made <= HORIZON:
                self._learn(features, outcome=1.0)
            elif final or self._now.calls - made >= HORIZON:
                self._learn(features, outcome=0.0)
            else:
                left.append((made, path, features))
        self._now.waiting = left

    def _learn(self, features: _Features, *, outcome: float) -> None:
        error = outcome - self._probability(features)
        for place, value in enumerate(features):
            self.weights[place] += RATE * error * value
