"""One run of the loop, from orders to result: in a sandbox, on a store. On public names only.

    orders ─► stored ─► sandbox, client, session ─► work ─► session paused ─► result

Cancelled, a run pauses its session and returns what it did: the loop has stored whole turns only.
Killed, it has stored them all the same. Either way ``resume`` goes on where it stopped.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ctxmgr import CtxmgrError, NotFound, Put, SessionRecord, Store, connect
from ctxmgr.core.client import Client
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.model import Ledger, Model
from ctxmgr.harness.assignments import PLAIN, Assignment, document_id
from ctxmgr.harness.happenings import Finished, Happening, Lost, Opened
from ctxmgr.harness.loop import check_bounds, work
from ctxmgr.sandboxes.starting import start_sandbox

INTERRUPTED: Final = "interrupted"

TASK_PROMPT: Final = """\
You work on the project in {directory}, with the tools you are given and no others.
Look before you change something, and check afterwards that it works.
When the task is done, say so in a few words and call no tool.

Your context is kept for you.
"""

SYSTEM_PROMPT: Final = f"""\
{TASK_PROMPT}\
Every file and every tool output has an id and one line in a list.
Its full text stands at the end as long as it is active; older outputs are folded to their line.
activate(id) shows one again, deactivate(id) folds it, pin(id) keeps it from being folded.
"""

ECONOMY_PROMPT: Final = f"""\
{TASK_PROMPT}\
Every file and every tool output stands once, where it came, under a handle such as #7.
Long and old ones are shortened: [#7 +1234 tok: names] ends what is left and tells what is hidden.
activate(#7) shows all of it again, pin(#7) keeps it whole, deactivate(#7) puts it away.
recall(query) finds what you have seen, whether it is shown or not.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a run."""

    session: str
    outcome: str
    """One of the loop's, or ``interrupted``."""
    answer: str = field(repr=False)
    """The last words of the model."""
    turns: tuple[Finished, ...]
    lost: int
    """Answers that broke off and were asked for again; what they cost nobody told."""
    ledger: Ledger


async def load_assignment(store: Store, session_id: str) -> Assignment | None:
    """Return a session's orders; None: no run has worked on it. ``NotFound``: there is neither."""
    version = await store.get(document_id(session_id))
    if version is not None:
        return Assignment.from_document(version.document)
    if await store.get(SessionRecord(session_id=session_id).object_id) is None:
        raise NotFound(f"there is no session {session_id}")
    return None


async def run(
    store: Store,
    assignment: Assignment,
    *,
    model: Model,
    task: str | None,
    turns_max: int,
    output_tokens_max: int,
    hear: Callable[[Happening], None],
    search: Path | None = None,
) -> Run:
    """Work on an assignment; ``task`` None: go on with the one it has.

    The session is started, or resumed if there is one. Errors of the model and of the store are
    raised when the session is paused; the turns before them are stored. ``search`` is the store's
    search index, a file: with it, what a policy hides can be recalled.
    """
    check_bounds(turns_max=turns_max, output_tokens_max=output_tokens_max)
    heard: list[Finished | Lost] = []

    def note(happening: Happening) -> None:
        if isinstance(happening, Finished | Lost):
            heard.append(happening)
        hear(happening)

    async with _opened(store, assignment, search) as (client, session):
        try:
            async with _pausing(client, session):
                words = await _ordered(store, assignment, task, session)
                hear(Opened(session=session.session_id, turn=session.turn))
                worked = await work(
                    session,
                    model=model,
                    user=words,
                    turns_max=turns_max,
                    output_tokens_max=output_tokens_max,
                    hear=note,
                    policy=None if assignment.policy == PLAIN else assignment.policy,
                )
                outcome = str(worked.outcome)
        except asyncio.CancelledError:
            _go_on()
            outcome = INTERRUPTED
    return _result(session.session_id, outcome, heard)


@asynccontextmanager
async def _opened(
    store: Store, assignment: Assignment, search: Path | None
) -> AsyncIterator[tuple[Client, LiveSession]]:
    sandbox, directory = await start_sandbox(
        assignment.sandbox, folder=Path(assignment.workspace), network=assignment.network
    )
    try:
        async with connect(
            store=store,
            sandbox=sandbox,
            directory=directory,
            search=None if assignment.policy == PLAIN else search,
        ) as client:
            yield client, await _session(client, assignment, directory)
    finally:
        await sandbox.close()


async def _session(client: Client, assignment: Assignment, directory: str) -> LiveSession:
    told = SYSTEM_PROMPT if assignment.policy == PLAIN else ECONOMY_PROMPT
    system_prompt = told.format(directory=directory)
    try:
        session = await client.resume(assignment.session)
    except NotFound:
        return await client.start(assignment.session, system_prompt=system_prompt)
    if assignment.started_here:
        await session.change_system_prompt(system_prompt)
    return session


async def _ordered(
    store: Store, assignment: Assignment, task: str | None, session: LiveSession
) -> str:
    """Store the orders before anything is done about them; return what is new for the model."""
    if task is not None:
        assignment = assignment.ordered(task, chat=session.chat)
    words = assignment.words(session.chat)
    await store.commit([Put(assignment.to_document())])
    return words


@asynccontextmanager
async def _pausing(client: Client, session: LiveSession) -> AsyncIterator[None]:
    """Leave the session to whoever resumes it, however this ends."""
    try:
        yield
    except BaseException:
        try:
            await client.pause(session.session_id)
        except CtxmgrError as error:  # a store that is away: what is raised now tells why
            logging.getLogger(__name__).warning("the session is not marked as paused: %s", error)
        raise
    await client.pause(session.session_id)


def _go_on() -> None:
    """Take a cancellation as done: there is a result to give."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


def _result(session_id: str, outcome: str, heard: Sequence[Finished | Lost]) -> Run:
    turns = tuple(each for each in heard if isinstance(each, Finished))
    ledger = Ledger()
    for turn in turns:
        ledger = ledger.charged(turn.charge)
    return Run(
        session=session_id,
        outcome=outcome,
        answer=turns[-1].text if turns else "",
        turns=turns,
        lost=len(heard) - len(turns),
        ledger=ledger,
    )
