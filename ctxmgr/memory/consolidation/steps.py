"""The steps of a consolidation: each looks at a workspace and returns what should change. Pure.

    1 merge similar facts      the same key, scope and project, and values that are alike
    2 condense episodes        the summary after 7 days, the compressed form after 30
    3 adjust rankings          what was shown in vain becomes cold; what was used, warm again
    4 scan contradictions      facts that cannot both hold
    5 forget                   what was superseded, and what was never used in 90 days
    6 discover connections     ``linking``

What a person wrote is never merged away by something else, condensed, made cold or forgotten. What
is in an open contradiction is not forgotten: that would decide it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.consolidation.similarity import MERGE_SIMILARITY, fact_key, similarity
from ctxmgr.memory.consolidation.workspace import MemoryChange, Workspace
from ctxmgr.memory.contradictions.slot_index import SlotIndex
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.contradiction import Contradiction, Resolution, contradiction_id
from ctxmgr.memory.records.levels import levels_by_rule
from ctxmgr.memory.records.memory import TAGS_MAX, Author, Memory, Visibility
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.ranking import DAY_MS, usefulness

SUMMARISED_AFTER_DAYS: Final = 7
COMPRESSED_AFTER_DAYS: Final = 30
FORGOTTEN_AFTER_DAYS: Final = 90
USAGE_THRESHOLD: Final = 0
COLD_BELOW: Final = 0.2
WARM_FROM: Final = 0.3
"""Above ``COLD_BELOW``, so that a memory does not change sides every night."""


def merge_similar_facts(workspace: Workspace, count: Callable[[str], int]) -> list[MemoryChange]:
    """Merge facts that say the same: a new one supersedes them, or that of a person does."""
    groups: dict[object, list[Memory]] = defaultdict(list)
    for memory in workspace.own():
        if isinstance(memory.body, Fact) and memory.superseded_by is None:
            owner = memory.user_id if memory.visibility is Visibility.USER_PRIVATE else None
            where = (memory.visibility, owner, memory.kind)
            groups[where, fact_key(memory.body)].append(memory)
    merges = [
        _merged(alike, workspace, count)
        for group in groups.values()
        for alike in _alike(group)
        if len(alike) > 1
    ]
    return _with_settled_pairs(merges, workspace)


def _with_settled_pairs(merges: Sequence[MemoryChange], workspace: Workspace) -> list[MemoryChange]:
    """Let a merged fact be in the pairs of its parts that a person said are both valid.

    Otherwise the same question would be asked again.
    """
    unit_of = {memory.id: number for number, unit in enumerate(merges) for memory in unit.memories}
    known = workspace.known_contradictions()
    settled: dict[int, dict[str, Contradiction]] = defaultdict(dict)
    for pair in known.values():
        if pair.resolution is not Resolution.BOTH_VALID:
            continue
        units = [unit_of.get(pair.memory_a), unit_of.get(pair.memory_b)]
        number = next((each for each in units if each is not None), None)
        ends = [
            workspace.memories.get(memory_id) if unit is None else merges[unit].memories[0]
            for memory_id, unit in zip((pair.memory_a, pair.memory_b), units, strict=True)
        ]
        one, other = ends
        if number is None or one is None or other is None or one.id == other.id:
            continue
        again = replace(pair, id=contradiction_id(one, other), memory_a=one.id, memory_b=other.id)
        if again.id not in known:
            settled[number][again.id] = again
    return [
        replace(unit, contradictions=tuple(settled[number].values()))
        for number, unit in enumerate(merges)
    ]


def _alike(group: Sequence[Memory]) -> Iterable[list[Memory]]:
    """Divide facts by similarity to the first of each part, so that small steps do not add up."""
    parts: list[list[Memory]] = []
    for memory in sorted(group, key=lambda each: (-_rank(each), each.created_at, each.id)):
        assert isinstance(memory.body, Fact)
        for part in parts:
            leader = part[0].body
            assert isinstance(leader, Fact)
            is_persons = memory.author is Author.PERSON and part[0].author is Author.PERSON
            if not is_persons and similarity(leader, memory.body) >= MERGE_SIMILARITY:
                part.append(memory)
                break
        else:
            parts.append([memory])
    return parts


def _rank(memory: Memory) -> float:
    """A person's fact comes first, then the one that is believed most."""
    assert isinstance(memory.body, Fact)
    return memory.body.confidence + (2.0 if memory.author is Author.PERSON else 0.0)


def _merged(
    alike: Sequence[Memory], workspace: Workspace, count: Callable[[str], int]
) -> MemoryChange:
    best = alike[0]
    assert isinstance(best.body, Fact)
    if best.author is Author.PERSON:
        winner, olds = best, alike[1:]
    else:
        reasons = (each.body.reason for each in alike if isinstance(each.body, Fact))
        body = replace(best.body, reason=next(filter(None, reasons), None))
        winner = replace(
            best,
            id=_merged_id(alike),
            body=body,
            levels=levels_by_rule(body, count),
            author=Author.RULE if any(m.author is Author.RULE for m in alike) else best.author,
            created_at=min(memory.created_at for memory in alike),
            valid_from=min(memory.valid_from for memory in alike),
            supersedes=(),
            tags=tuple(dict.fromkeys(tag for each in alike for tag in each.tags))[:TAGS_MAX],
            cold=all(each.cold for each in alike),
        )
        olds = alike
    taken = dict.fromkeys((*winner.supersedes, *(old.id for old in olds)))
    winner = replace(winner, supersedes=tuple(taken))
    because = f"says the same as {winner.id}"
    ended = [
        replace(
            old,
            valid_to=max(workspace.now, old.valid_from),
            superseded_by=winner.id,
            ended_because=because,
            ended_by=Author.RULE,
        )
        for old in olds
    ]
    used = _added_up(winner.id, [workspace.usage_of(memory.id) for memory in alike])
    return MemoryChange(
        what=f"{len(olds)} facts say the same: {winner.levels.compressed:.60}",
        memories=(winner, *ended),
        usage=() if used == workspace.usage_of(winner.id) else (used,),
    )


def _merged_id(alike: Sequence[Memory]) -> str:
    """Return an id in the form of a UUID, the same in a dry run and the real one."""
    parts = sorted(f"{memory.id} {memory.content_hash}" for memory in alike)
    digits = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _added_up(memory_id: str, parts: Sequence[MemoryUsage]) -> MemoryUsage:
    """Return the use of what became one memory."""
    accessed = [part.last_accessed for part in parts if part.last_accessed is not None]
    return MemoryUsage(
        memory_id=memory_id,
        retrieval_count=sum(part.retrieval_count for part in parts),
        citation_count=sum(part.citation_count for part in parts),
        ignore_count=sum(part.ignore_count for part in parts),
        last_accessed=max(accessed, default=None),
    )


def summarize_episodes(workspace: Workspace) -> list[MemoryChange]:
    """Show only the summary of episodes that are older than ``SUMMARISED_AFTER_DAYS``."""
    return _condensed(workspace, days=SUMMARISED_AFTER_DAYS, level=1)


def compress_episodes(workspace: Workspace) -> list[MemoryChange]:
    """Show only the compressed form of episodes that are older than ``COMPRESSED_AFTER_DAYS``."""
    return _condensed(workspace, days=COMPRESSED_AFTER_DAYS, level=2)


def _condensed(workspace: Workspace, *, days: int, level: int) -> list[MemoryChange]:
    before = workspace.now - days * DAY_MS
    return [
        MemoryChange(
            what=f"condensed: {memory.levels.compressed:.60}",
            memories=(replace(memory, condensed=level),),
        )
        for memory in workspace.own()
        if isinstance(memory.body, Episode)
        and memory.author is not Author.PERSON
        and memory.condensed < level
        and memory.created_at < before
    ]


def adjust_rankings(workspace: Workspace) -> list[MemoryChange]:
    """Make cold what was shown in vain, and warm again what was used since.

    The rank itself is computed from the counters each time and is not stored.
    """
    changed = []
    for memory in workspace.own():
        score = usefulness(memory, workspace.usage_of(memory.id), now=workspace.now)
        cold = score < (WARM_FROM if memory.cold else COLD_BELOW)
        if memory.author is not Author.PERSON and cold is not memory.cold:
            what = f"{'cold' if cold else 'warm'}: {memory.levels.compressed:.60}"
            changed.append(MemoryChange(what=what, memories=(replace(memory, cold=cold),)))
    return changed


def scan_contradictions(workspace: Workspace) -> list[MemoryChange]:
    """Report facts that cannot both hold, each pair once."""
    index = SlotIndex()
    known = workspace.known_contradictions()
    found = []
    for memory in workspace.valid():
        for other, reason in index.disagreeing(memory):
            pair_id = contradiction_id(other, memory)
            if pair_id not in known:
                pair = Contradiction(
                    id=pair_id,
                    memory_a=other.id,
                    memory_b=memory.id,
                    reason=reason,
                    detected_at=workspace.now,
                )
                found.append(
                    MemoryChange(what=f"contradiction: {reason:.80}", contradictions=(pair,))
                )
        index.put(memory)
    return found


def forget_superseded(workspace: Workspace) -> list[MemoryChange]:
    """End what another memory took the place of."""
    return [
        _forgotten(memory, workspace.now, f"superseded by {memory.superseded_by}")
        for memory in workspace.own()
        if memory.superseded_by is not None
    ]


def forget_unused(workspace: Workspace) -> list[MemoryChange]:
    """End what was learnt ``FORGOTTEN_AFTER_DAYS`` ago and never used."""
    before = workspace.now - FORGOTTEN_AFTER_DAYS * DAY_MS
    disputed = workspace.disputed()
    because = f"not used in {FORGOTTEN_AFTER_DAYS} days"
    return [
        _forgotten(memory, workspace.now, because)
        for memory in workspace.own()
        if memory.author is not Author.PERSON
        and memory.id not in disputed
        and _is_unused(memory, workspace.usage_of(memory.id), before)
    ]


def _is_unused(memory: Memory, usage: MemoryUsage, before: Instant) -> bool:
    used = usage.retrieval_count + usage.citation_count
    return used <= USAGE_THRESHOLD and (usage.last_accessed or memory.created_at) < before


def _forgotten(memory: Memory, now: Instant, because: str) -> MemoryChange:
    ended = replace(
        memory,
        valid_to=max(now, memory.valid_from),
        ended_because=because,
        ended_by=Author.RULE,
    )
    return MemoryChange(what=f"forgotten: {memory.levels.compressed:.60}", memories=(ended,))
