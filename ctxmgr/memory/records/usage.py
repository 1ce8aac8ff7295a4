"""How often a memory was shown, used and passed over. Pure.

Counters only grow. What they mean for the rank of a memory is computed from them each time
(``ranking``), so that nothing decays twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ctxmgr.core.store.contract import IdForm, Instant, Kind
from ctxmgr.errors import Corrupt

USAGE: Final = "memory_usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUsage:
    """The counters of one memory."""

    memory_id: str
    retrieval_count: int = 0
    citation_count: int = 0
    ignore_count: int = 0
    last_accessed: Instant | None = None

    def retrieved(self, at: Instant) -> Self:
        return replace(self, retrieval_count=self.retrieval_count + 1, last_accessed=at)

    def cited(self, at: Instant) -> Self:
        return replace(self, citation_count=self.citation_count + 1, last_accessed=at)

    def restored(self, at: Instant) -> Self:
        """Wanted back by a person, which is an access, but no prompt showed it."""
        return replace(self, last_accessed=at)

    def ignored(self) -> Self:
        """Shown for its relevance and not used; this is not an access."""
        return replace(self, ignore_count=self.ignore_count + 1)


def stored_usage(usage: MemoryUsage) -> dict[str, Any]:
    return {
        "xt/id": f"{USAGE}:{usage.memory_id}",
        "type": USAGE,
        "retrieval_count": usage.retrieval_count,
        "citation_count": usage.citation_count,
        "ignore_count": usage.ignore_count,
        "last_accessed": usage.last_accessed,
    }


def read_usage(stored: Mapping[str, Any]) -> MemoryUsage:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    where = stored.get("xt/id")
    try:
        last = stored["last_accessed"]
        return MemoryUsage(
            memory_id=str(stored["xt/id"]).removeprefix(f"{USAGE}:"),
            retrieval_count=int(stored["retrieval_count"]),
            citation_count=int(stored["citation_count"]),
            ignore_count=int(stored["ignore_count"]),
            last_accessed=None if last is None else int(last),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the stored usage {where!r:.80} is not readable: {error}") from error


USAGE_KIND: Final = Kind(USAGE, ids=IdForm.NAMED)
