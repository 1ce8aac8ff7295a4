"""Ends records that are of no use any more: old refusals, and verdicts about what ended. Commits.

Both are by-products of learning. They are kept for a person to look at and to save questions to a
model, and would otherwise grow with every session. Like everything else they stay in the history
of the store.
"""

from typing import Final

from ctxmgr.core.store.contract import Delete, Instant, Order, Query, Store
from ctxmgr.core.store.queries import batched
from ctxmgr.memory.records.learning_kinds import REFUSED, VERDICT
from ctxmgr.memory.repository import MemoryRepository

REFUSED_KEPT_MAX: Final = 1_000
"""Requests of a user in a project whose refusals are kept, the newest."""

VERDICTS_KEPT_MAX: Final = 20_000
"""Verdicts of a store that are kept, the newest."""

AT_ONCE: Final = 500
"""Memories that are read, or records that are ended, at once."""


async def prune_records(store: Store, repository: MemoryRepository, *, now: Instant) -> int:
    """End what is over the bounds or about ended memories; return how many records that were."""
    user, project = repository.principal.user_id, repository.principal.project_id
    refusals = Query(
        REFUSED,
        {"user_id": user, "project_id": project},
        order=Order("refused_at", descending=True),
    )
    ended = [version.object_id async for version in repository.found(refusals)][REFUSED_KEPT_MAX:]
    ended += await _useless_verdicts(repository, now=now)
    for part in batched(ended, AT_ONCE):
        await store.commit([Delete(object_id) for object_id in part])
    return len(ended)


async def _useless_verdicts(repository: MemoryRepository, *, now: Instant) -> list[str]:
    """Return the verdicts about a memory of the principal that ended, and the oldest of many."""
    judged: dict[str, tuple[int, frozenset[str]]] = {}
    async for version in repository.found(Query(VERDICT)):
        document = version.document
        at = document.get("judged_at")
        ids = {str(document[end]) for end in ("memory_a", "memory_b") if document.get(end)}
        judged[version.object_id] = (at if isinstance(at, int) else 0, frozenset(ids))
    named = {memory_id for _, ids in judged.values() for memory_id in ids}
    gone: set[str] = set()
    for part in batched(sorted(named), AT_ONCE):
        seen = await repository.seen(part)
        gone |= {each.id for each in seen.values() if not each.is_valid_at(now)}
    useless = [verdict for verdict, (_, ids) in judged.items() if ids & gone]
    kept = sorted(judged.keys() - set(useless), key=lambda verdict: (-judged[verdict][0], verdict))
    return useless + kept[VERDICTS_KEPT_MAX:]
