"""How often one client may ask: a bucket for each, filled by time, emptied by requests. Pure."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

CLIENTS_MAX: Final = 10_000
"""Buckets that are kept; of more clients those that asked longest ago begin with a full one."""

BURST_SECONDS: Final = 2
"""Requests that may come at once: what so many seconds would allow."""


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


class Rates:
    """Buckets by client. ``now`` is any clock that only goes forward, in seconds."""

    def __init__(self, *, per_second: int) -> None:
        self._per_second = per_second
        self._burst = float(per_second * BURST_SECONDS)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, client: str, *, now: float) -> float:
        """Count a request; return 0, or the seconds after which it would be let through."""
        bucket = self._buckets.setdefault(client, _Bucket(self._burst, now))
        self._buckets.move_to_end(client)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        gained = (now - bucket.filled) * self._per_second
        bucket.left = min(self._burst, bucket.left + gained)
        bucket.filled = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_second
        bucket.left -= 1
        return 0.0
