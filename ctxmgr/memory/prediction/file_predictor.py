"""Which files will be touched next for the first time, with a probability. Pure.

What speaks for a file: that it was named lately and how often, that a touched file imports it,
that earlier sessions touched it, or commits changed it, together with what is touched now, and that
it was touched often. That it lies in the folder of what was touched last says nothing more: it made
predictions worse. A logistic model weighs this. It learns from every prediction whose outcome is
known, so that its probabilities follow what happens: 0.3 comes true in about three of ten cases.

    FilePredictor     what all sessions of a project teach
    SessionFiles      one session: what it named and touched, and what it will touch
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log1p
from typing import Final, TypeAlias

from ctxmgr.memory.prediction.related_files import RelatedFiles

HORIZON: Final = 5
"""Calls within which a prediction may come true."""

CANDIDATES_MAX: Final = 150
"""Files that are weighed at once."""

TOGETHER: Final = 8
"""Calls between two files that were touched together."""

NAMES_LATELY: Final = 10
"""Names after which an earlier one counts half."""

NAMED_MAX: Final = 5_000
"""Files whose names a session remembers, the last ones."""

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
    "changed together in commits",
)
_WEIGHTS: Final = (-5.0, 3.0, 0.5, 1.0, 0.8, 2.5, 0.8, 4.0)
"""Where the model begins: rough odds, which the first outcomes correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedFile:
    """A file that may be touched soon."""

    path: str
    probability: float
    why: str


class FilePredictor:
    """Learns from sessions, and begins new ones."""

    def __init__(self, related: RelatedFiles | None = None) -> None:
        """``related`` knows what files import, and what was committed together."""
        self.related = RelatedFiles() if related is None else related
        self.weights = list(_WEIGHTS)
        self.together: dict[str, Counter[str]] = defaultdict(Counter)
        self.before: Counter[str] = Counter()
        self.sessions = 0

    def begin_session(self) -> "SessionFiles":
        return SessionFiles(self)

    def take_session(self, order: Sequence[str]) -> None:
        """Learn which files belong together from those that a session touched, in their order."""
        for place, path in enumerate(order):
            for other in order[max(0, place - TOGETHER) : place]:
                if other != path:
                    self.together[other][path] += 1
                    self.together[path][other] += 1
        self.before.update(set(order))
        self.sessions += bool(order)

    def probability(self, features: Sequence[float]) -> float:
        total = sum(weight * value for weight, value in zip(self.weights, features, strict=True))
        return 1 / (1 + exp(-max(-30.0, min(30.0, total))))

    def learn(self, features: _Features, *, outcome: float) -> None:
        """Move the weights towards what happened."""
        error = outcome - self.probability(features)
        for place, value in enumerate(features):
            self.weights[place] += RATE * error * value


class SessionFiles:
    """What one session named and touched."""

    def __init__(self, predictor: FilePredictor) -> None:
        self._predictor = predictor
        self._calls = 0
        self._touched: dict[str, int] = {}
        """File → the call that touched it first."""
        self._order: list[str] = []
        self._named: dict[str, int] = {}
        """File → when it was last named, counted in names."""
        self._names = 0
        self._times: Counter[str] = Counter()
        self._by_agent: dict[str, int] = {}
        self._imported: dict[str, int] = {}
        """File → the call after which a file that imports it was last read."""
        self._waiting: dict[tuple[int, str], _Features] = {}
        """Call and file → a prediction whose outcome is not known yet, the last one."""

    @property
    def touched(self) -> frozenset[str]:
        return frozenset(self._touched)

    def knows(self, path: str) -> bool:
        """Whether a file was named or touched before, in this session or an earlier one."""
        return path in self._named or path in self._predictor.before

    def name(self, paths: Iterable[str], *, by_agent: bool = False) -> None:
        """Take in the paths that a message or an output names."""
        for path in paths:
            self._names += 1
            self._named.pop(path, None)
            self._named[path] = self._names
            self._times[path] += 1
            if by_agent:
                self._by_agent[path] = self._calls
        while len(self._named) > NAMED_MAX:
            oldest = next(iter(self._named))
            del self._named[oldest], self._times[oldest]
            self._by_agent.pop(oldest, None)

    def imports(self, paths: Iterable[str]) -> None:
        """Take in what a file that was read imports."""
        for path in paths:
            self._imported.pop(path, None)
            self._imported[path] = self._calls
        while len(self._imported) > NAMED_MAX:
            del self._imported[next(iter(self._imported))]

    def touch(self, paths: Iterable[str]) -> None:
        """Take in the files of one call, which may make predictions come true."""
        self._calls += 1
        for path in paths:
            self._touched.setdefault(path, self._calls)
            self._order.append(path)
            self.imports(self._predictor.related.imports(path))
        self._settle(final=False)

    def predict(self, limit: int) -> list[PredictedFile]:
        """Return the files that are most likely touched within ``HORIZON`` calls, best first."""
        scored = []
        for path in self._candidates():
            features = self._features(path)
            self._waiting[self._calls, path] = features
            scored.append((self._predictor.probability(features), path, features))
        scored.sort(key=lambda entry: (-entry[0], entry[1]))
        return [
            PredictedFile(path=path, probability=probability, why=self._why(features))
            for probability, path, features in scored[:limit]
        ]

    def end(self) -> None:
        """Let the predictor learn from the whole session."""
        self._predictor.take_session(self._order)
        self._settle(final=True)

    def _candidates(self) -> list[str]:
        lately = list(self._named)[: -CANDIDATES_MAX // 2 - 1 : -1]
        near: Counter[str] = Counter()
        committed: list[str] = []
        for path in self._order[-TOGETHER:]:
            near.update(self._predictor.together.get(path, {}))
            committed += self._predictor.related.most_committed_with(path, TOGETHER)
        wanted = dict.fromkeys(
            (
                *lately,
                *(path for path, _ in near.most_common(CANDIDATES_MAX // 4)),
                *committed[: CANDIDATES_MAX // 4],
                *(path for path, _ in self._predictor.before.most_common(CANDIDATES_MAX // 4)),
                *list(self._imported)[-CANDIDATES_MAX // 4 :],
            )
        )
        return [path for path in wanted if path not in self._touched]

    def _features(self, path: str) -> _Features:
        shared = self._predictor
        age = self._names - self._named[path] if path in self._named else None
        agent = self._calls - self._by_agent[path] if path in self._by_agent else None
        read = self._imported.get(path)
        recent = self._order[-TOGETHER:]
        together = max(
            (
                shared.together[other][path] / (1 + sum(shared.together[other].values()) / TOGETHER)
                for other in recent
                if other in shared.together
            ),
            default=0.0,
        )
        return (
            1.0,
            0.0 if age is None else 1 / (1 + age / NAMES_LATELY),
            log1p(self._times[path]),
            0.0 if agent is None else 1 / (1 + agent),
            0.0 if read is None else 1 / (1 + self._calls - read),
            min(1.0, together),
            shared.before[path] / (1 + shared.sessions),
            max((shared.related.committed_with(other, path) for other in recent), default=0.0),
        )

    def _why(self, features: Sequence[float]) -> str:
        weights = self._predictor.weights
        worth = [weight * value for weight, value in zip(weights, features, strict=True)]
        best = max(range(1, len(worth)), key=lambda place: worth[place])
        return _NAMES[best]

    def _settle(self, *, final: bool) -> None:
        """Learn from predictions whose outcome is known by now."""
        left: dict[tuple[int, str], _Features] = {}
        for (made, path), features in self._waiting.items():
            first = self._touched.get(path)
            if first is not None and first - made <= HORIZON:
                self._predictor.learn(features, outcome=1.0)
            elif final or self._calls - made >= HORIZON:
                self._predictor.learn(features, outcome=0.0)
            else:
                left[made, path] = features
        self._waiting = left
