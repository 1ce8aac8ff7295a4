"""``ctxmgr memory learn`` and ``refused``: what sessions teach. Imports when it runs."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxmgr.surfaces.encoding import iso
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App

_PROJECT = Param("The project's folder; default: the current one.", metavar="DIR", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntFromSession:
    """What a session taught."""

    session: str
    exchanges: int
    """Requests of the user that were learnt from now."""
    learnt: dict[str, int]
    """New memories, by the rule that found them."""
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMemory:
    """Something that looked worth remembering, and is not remembered."""

    session: str
    turn: int
    found_by: str
    reason: str
    text: str
    refused_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMemories:
    refused: tuple[RefusedMemory, ...]


async def memory_learn(
    app: "App",
    session: Annotated[str, Param("The session.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> LearntFromSession:
    """Learn from a session that is stored already.

    Sessions of `ctxmgr run --memory` are learnt from as they go on; this is for imported ones.
    What was learnt before is not learnt twice.
    """
    from ctxmgr.memory.learning.replay import learn_session

    replayed = await learn_session(await app.store(), await app.learner(project), session)
    return LearntFromSession(
        session=session,
        exchanges=replayed.exchanges,
        learnt=dict(sorted(Counter(item.extractor for item in replayed.learnt).items())),
        refused=len(replayed.refused),
    )


async def memory_refused(
    app: "App",
    *,
    limit: Annotated[int, Param("Requests to look at, the newest first.")] = 100,
    project: Annotated[Path | None, _PROJECT] = None,
) -> RefusedMemories:
    """List what sessions offered and was not remembered."""
    memory = await app.memory(project)
    return RefusedMemories(
        refused=tuple(
            RefusedMemory(
                session=batch.session_id,
                turn=item.turn,
                found_by=item.extractor,
                reason=item.reason,
                text=item.text,
                refused_at=iso(batch.refused_at),
            )
            for batch in await memory.refused(limit=limit)
            for item in batch.items
        )
    )
