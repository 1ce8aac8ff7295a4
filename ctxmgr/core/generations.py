"""A bounded memory of what was computed: two generations. Pure.

When the young generation is full it becomes the old one, and the old one is forgotten. What is
asked for again moves back to the young, so what is in use stays, at the price of two lookups.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Generations(Generic[K, V]):
    """Keeps at least the last ``size`` values, and at most twice as many."""

    __slots__ = ("_old", "_young", "size")

    def __init__(self, size: int) -> None:
        assert size > 0
        self.size = size
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return what was kept; None: never, or forgotten."""
        known = self._young.get(key)
        if known is None:
            known = self._old.get(key)
            if known is not None:
                self.keep(key, known)
        return known

    def keep(self, key: K, value: V) -> None:
        if len(self._young) >= self.size:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
