"""A cache that is bounded by the size of its values. Pure.

The least recently used values are dropped first. A value in use can be exempt: then the cache may
be larger than its bound until the value is released. Threads that use a cache at once may miss a
value that is there, and see no other effect.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """Keeps values of at most ``bytes_max`` and ``count_max`` together."""

    def __init__(
        self,
        bytes_max: int,
        *,
        count_max: int,
        in_use: Callable[[V], bool] = lambda _value: False,
    ) -> None:
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._in_use = in_use
        self._values: dict[K, tuple[V, int]] = {}
        """In the order of their last use."""

    @property
    def bytes(self) -> int:
        """Of all values, as their sizes were given."""
        return sum(size for _, size in list(self._values.values()))

    def get(self, key: K) -> V | None:
        """Return the cached value; None: there is none, or it was dropped."""
        found = self._values.pop(key, None)
        if found is None:
            return None
        self._values[key] = found
        return found[0]

    def keep(self, key: K, value: V, *, size: int) -> None:
        """Cache a value, and drop others if there is no room; the newest one always stays."""
        self._values.pop(key, None)
        self._values[key] = (value, size)
        total, count = self.bytes, len(self._values)
        for old, (other, other_size) in list(self._values.items())[:-1]:
            if total <= self._bytes_max and count <= self._count_max:
                return
            if not self._in_use(other):
                self._values.pop(old, None)
                total, count = total - other_size, count - 1

    def __len__(self) -> int:
        return len(self._values)
