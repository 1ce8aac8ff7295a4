"""A bounded cache with two generations. Pure.

When the young generation is full it becomes the old one, and the old one is dropped. A value that
is read from the old generation moves back to the young one, so values in use stay, at the cost of
two lookups.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps at least the last ``size`` values, and at most twice as many."""

    __slots__ = ("_old", "_young", "size")

    def __init__(self, size: int) -> None:
        assert size > 0
        self.size = size
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the cached value; None: there is none, or it was dropped."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.keep(key, value)
        return value

    def keep(self, key: K, value: V) -> None:
        """Cache a value, dropping the oldest ones if the cache is full."""
        if len(self._young) >= self.size:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
