"""What a tool call means for files and sets. Reads the store and the disk; commits nothing.

it read a file      indexed, met and shown
it wrote one        indexed and met
its output names    stubs, met
itself              met and shown
"""

from collections.abc import Sequence

from ctxmgr.core.contents import File, FileState
from ctxmgr.core.discovery import discover
from ctxmgr.core.index_plans import Outcome, Plan
from ctxmgr.core.objects import from_document
from ctxmgr.core.session_state import Change, Draft
from ctxmgr.core.sessions import Session
from ctxmgr.core.surroundings import Surroundings, refusal
from ctxmgr.core.tool_traces import Trace
from ctxmgr.errors import Incorrect, NotFound


async def plan_touched(around: Surroundings, trace: Trace, *, output: bytes | None) -> list[Plan]:
    """Plan the indexing of the file that a call read or wrote."""
    path = trace.read or trace.written
    if path is None:
        return []
    try:
        return [await around.plan_file(path, output=output)]
    except Incorrect:  # the tool took it; for us it can be no path
        return []


async def plan_named(around: Surroundings, trace: Trace, *, output: str) -> list[Plan]:
    """Plan stubs for the files that an output names, each plan for its own transaction."""
    if trace.command is None or trace.directory is None:
        return []
    named = discover(trace.command, directory=trace.directory, output=output, failed=trace.failed)
    inside = around.among_files if around.sandbox is not None else None
    return await around.indexing.plan_discovery(named, inside=inside)


async def plan_shown(around: Surroundings, object_id: str) -> Draft:
    """Plan the reading of what is to be shown, if it was only seen until now."""
    version = await around.store.get(object_id)
    if version is None:
        raise NotFound(f"{object_id} is not in the store")
    stored = from_document(version.document)
    if not isinstance(stored, File):
        return Draft()
    if not stored.is_stub:
        if await around.state_of(stored) is FileState.NONTEXT:
            raise Incorrect(f"{object_id} is no text, and cannot be shown")
        return Draft()
    path = around.display_path(stored)
    planned = await around.plan_file(path)
    (outcome,) = planned.outcomes
    if outcome.object_id != object_id:
        raise NotFound(f"{path} leads to another file now")
    readable(path, outcome)
    return Draft(plans=(planned,))


def meeting(toolcall_id: str, *, read: bool) -> Change:
    def change(session: Session, draft: Draft) -> Session:
        met = discovering(session, draft)
        if read and draft.plans:
            met = reading(met, Draft(plans=draft.plans[:1]))
        return met.created(toolcall_id)

    return change


def discovering(session: Session, draft: Draft) -> Session:
    return session.meet_all(each.object_id for each in draft.outcomes if each.file is not None)


def reading(session: Session, draft: Draft) -> Session:
    for outcome in draft.outcomes:
        if outcome.file is not None and outcome.unread is None:
            session = session.read(outcome.object_id)
    return session


def readable(path: str, outcome: Outcome) -> File:
    if outcome.file is None or outcome.unread is not None:
        raise refusal(path, outcome)
    if outcome.file.content is None:
        raise Incorrect(f"{path} is no text, and cannot be shown")
    return outcome.file


def refs(plans: Sequence[Plan]) -> tuple[str, ...] | None:
    ids = [each.object_id for plan in plans for each in plan.outcomes if each.file is not None]
    return tuple(dict.fromkeys(ids)) or None
