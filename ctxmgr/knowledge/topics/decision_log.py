"""The log of decisions about topics: one document of the core store for each. Commits.

A decision is written once. Whether it was useful is known later and stored as a new version of the
document, so the history shows when that was judged. Of the message only its hash is stored.

Ids descend with time, so that the newest decisions are read first and a long log need not be read.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Final

from ctxmgr.core.store.contract import INSTANT_MAX, PAGE_MAX, Instant, Put, Query, Store
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.knowledge.topics.gate_decision import GateDecision, GateResult

DECISION_KIND: Final = "gate_decision"
"""The ``type`` of the documents."""

DECISIONS_READ_MAX: Final = 20_000
"""Decisions that one reading considers, from the newest."""

_RANDOM_BYTES: Final = 6


class DecisionLog:
    """The decisions in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def record(self, decisions: Sequence[GateDecision]) -> list[GateDecision]:
        """Store decisions in one transaction; return them with their ids."""
        named = [replace(each, decision_id=_new_id(each.timestamp)) for each in decisions]
        if named:
            await self._store.commit([Put(_document(each)) for each in named])
        return named

    async def judge(self, judged: Mapping[str, bool]) -> int:
        """Store whether decisions were useful, by id; return how many were new."""
        found = await self._store.get_many(judged)
        changed = [
            replace(decision, was_useful=judged[object_id])
            for object_id, version in found.items()
            if (decision := _decision(version.document)).was_useful is None
        ]
        if changed:
            await self._store.commit([Put(_document(each)) for each in changed])
        return len(changed)

    async def newest(
        self, *, limit: int, topic: str | None = None, session_id: str | None = None
    ) -> list[GateDecision]:
        """Return the newest decisions, newest first."""
        if not 0 < limit <= DECISIONS_READ_MAX:
            raise Incorrect(f"limit is 1 to {DECISIONS_READ_MAX:,}, not {limit}")
        found: list[GateDecision] = []
        async for decision in self._read():
            if topic in {None, decision.topic_name} and session_id in {None, decision.session_id}:
                found.append(decision)
                if len(found) >= limit:
                    break
        return found

    async def _read(self) -> AsyncIterator[GateDecision]:
        cursor, count = None, 0
        while count < DECISIONS_READ_MAX:
            page = await self._store.find(Query(DECISION_KIND), limit=PAGE_MAX, cursor=cursor)
            for version in page.versions:
                yield _decision(version.document)
            count += len(page.versions)
            cursor = page.cursor
            if cursor is None:
                return


def _new_id(timestamp: Instant) -> str:
    return f"{DECISION_KIND}:{INSTANT_MAX - timestamp:015d}-{secrets.token_hex(_RANDOM_BYTES)}"


def _document(decision: GateDecision) -> Document:
    stored: dict[str, Any] = asdict(decision)
    object_id = stored.pop("decision_id")
    stored["triggers"] = list(decision.triggers)
    stored["gate_result"] = str(decision.gate_result)
    return {ID: object_id, KIND: DECISION_KIND, **stored}


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "timestamp": (int,),
    "message_hash": (str,),
    "topic_name": (str,),
    "tier1_matched": (bool,),
    "tier2_score": (int, float),
    "gate_result": (str,),
    "was_useful": (bool, type(None)),
    "direction": (str,),
    "decider": (str,),
    "triggers": (list, tuple),
    "session_id": (str, type(None)),
}


def _decision(document: Document) -> GateDecision:
    """Read a stored decision; ``Corrupt`` if another program wrote something else."""
    values: dict[str, Any] = {name: document.get(name) for name in _TYPES}
    for name, types in _TYPES.items():
        if not isinstance(values[name], types):
            raise Corrupt(f"{document[ID]}: {name} is {values[name]!r:.60}")
    try:
        result = GateResult(str(values["gate_result"]))
    except ValueError as error:
        raise Corrupt(f"{document[ID]}: {error}") from error
    values |= {
        "gate_result": result,
        "tier2_score": float(document["tier2_score"]),
        "triggers": tuple(map(str, document["triggers"])),
        "decision_id": document[ID],
    }
    return GateDecision(**{each.name: values[each.name] for each in fields(GateDecision)})
