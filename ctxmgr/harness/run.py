"""One run of the agent loop: from a task to its result, in a sandbox, on a store.

    task ─► stored ─► sandbox, client, session ─► work ─► session paused ─► result

A cancelled run pauses its session and returns its result so far. A killed run has stored all its
complete turns. Either can be resumed. Uses public names only.

    run:{session}     a plain document: the task, the turn that will hold it, workspace and model

A chat holds only what was answered. The task is therefore stored here first, so that a run that was
killed in its first turn can be resumed, too. The document contains no API key.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ctxmgr import (
    Chat,
    Corrupt,
    CtxmgrError,
    Economy,
    Incorrect,
    NotFound,
    Put,
    SessionRecord,
    Store,
    connect,
    guide,
)
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.model import Ledger, Model
from ctxmgr.core.prices import PriceList
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.experience.records.contents import recorded_session
from ctxmgr.harness.budget import Budget
from ctxmgr.harness.loop import LIST_PRICES, check_bounds, work
from ctxmgr.harness.loop_events import AnswerRestarted, LoopEvent, RunOpened, TurnEnded
from ctxmgr.harness.stream_recorder import StreamRecorder
from ctxmgr.sandboxes.start import start_sandbox

if TYPE_CHECKING:
    from ctxmgr.experience.xdb import XDB
    from ctxmgr.knowledge.library import Library

KIND: Final = "run"

PLAIN: Final = "plain"
"""The four sections of the specification: the policy of runs before it was stored."""

ECONOMY: Final = "economy"
"""The policy of a new run."""

_CALLS: Final = frozenset({"toolcall", "contextcall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a run works on, as stored with its session."""

    session: str
    task: str
    turn: int
    """The number of the turn that holds, or will hold, the task."""
    workspace: str
    """The folder on the host."""
    sandbox: str | None
    """None: the best that is available."""
    network: bool
    model: str
    api: str
    base_url: str | None
    started_here: bool
    """The session was started by a run, which owns its system prompt."""
    policy: str | None = PLAIN
    """How prompts are rendered; None: as the session's are. Documents of version 0.1 lack it."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Read a stored assignment; ``Corrupt`` if a field is missing or of another type."""
        values = {}
        for item in fields(cls):
            if item.name not in document and item.default is not MISSING:
                continue
            if item.name not in document:
                raise Corrupt(f"{document['xt/id']}: the field {item.name!r} is missing")
            value = document[item.name]
            if not _TYPES[item.type](value):
                raise Corrupt(f"{document['xt/id']}: the field {item.name!r} is {value!r:.80}")
            values[item.name] = value
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        return {"xt/id": document_id(self.session), "type": KIND, **asdict(self)}

    def with_task(self, task: str, *, chat: Chat) -> Self:
        """Return it with another task, for the next turn."""
        return replace(self, task=task, turn=chat.turn_count + 1)

    def user_message(self, chat: Chat) -> str:
        """Return the next user message: the task, or nothing if a turn holds it already.

        ``Incorrect`` if a turn holds the task and the last answer called no tools.
        """
        if chat.turn_count < self.turn:
            return self.task
        if _CALLS.isdisjoint(part["type"] for part in chat.turns[-1].assistant):
            raise Incorrect(f"session {self.session} has nothing left to do; give it a new task")
        return ""


_TYPES: Final[dict[Any, Callable[[Any], bool]]] = {
    str: lambda value: isinstance(value, str),
    str | None: lambda value: value is None or isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
}
"""Whether a stored value has the type of a field; another program may have stored any."""


def document_id(session_id: str) -> str:
    return f"{KIND}:{session_id}"


INTERRUPTED: Final = "interrupted"

TASK_PROMPT: Final = """\
You work on the project in {directory}, with the tools you are given and no others.
Look before you change something, and check afterwards that it works.
When the task is done, say so in a few words and call no tool.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a run."""

    session: str
    outcome: str
    """A ``LoopOutcome``, or ``interrupted``."""
    answer: str = field(repr=False)
    """The text of the last answer."""
    turns: tuple[TurnEnded, ...]
    lost: int
    """Answers that broke off and were requested again; their cost is unknown."""
    ledger: Ledger


async def load_assignment(store: Store, session_id: str) -> Assignment | None:
    """Return a session's assignment; None if it has none. ``NotFound`` if there is no session."""
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
    max_turns: int,
    output_tokens_max: int,
    max_usd: float | None = None,
    prices: PriceList = LIST_PRICES,
    on_event: Callable[[LoopEvent], None],
    search: Path | None = None,
    audit: Path | None = None,
    experience: "XDB | None" = None,
    knowledge: "Library | None" = None,
    memory: bool = False,
    take_over: bool = False,
) -> Run:
    """Work on an assignment; without a ``task``, continue the one that it has.

    The session is started, or resumed if it exists; ``Incorrect`` if another client has it open,
    unless it is to be taken over. Errors of the model and of the store are raised
    after the session is paused; the turns before them are stored. ``search`` is the file of the
    store's search index, which the tool ``recall`` needs; ``audit`` the folder of an audit log.
    ``experience`` records what happens, and answers while they are streamed. ``knowledge`` are
    notes, of which prompts show what fits. With ``memory``, prompts show what earlier sessions in
    the workspace taught, and this one is learnt from.
    """
    check_bounds(max_turns=max_turns, output_tokens_max=output_tokens_max)
    Budget.of(max_usd, prices=prices, model=model.name)  # fails before anything is started
    events: list[TurnEnded | AnswerRestarted] = []

    recorder = StreamRecorder(WorkspaceHooks(experience))

    def note(event: LoopEvent) -> None:
        if isinstance(event, TurnEnded | AnswerRestarted):
            events.append(event)
        recorder.on_event(event)
        on_event(event)

    opening = _open_session(
        store,
        assignment,
        search=search,
        audit=audit,
        experience=experience,
        knowledge=knowledge,
        memory=memory,
        take_over=take_over,
    )
    async with opening as (client, session):
        try:
            async with _pausing(client, session):
                user = await _store_task(store, assignment, task, session)
                on_event(RunOpened(session=session.session_id, turn=session.turn))
                worked = await work(
                    session,
                    model=model,
                    user=user,
                    max_turns=max_turns,
                    max_usd=max_usd,
                    prices=prices,
                    output_tokens_max=output_tokens_max,
                    on_event=note,
                )
                outcome = str(worked.outcome)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            assert current is not None
            current.uncancel()  # the cancellation is handled: there is a result to return
            outcome = INTERRUPTED
    return _result(session.session_id, outcome, events)


@asynccontextmanager
async def _open_session(
    store: Store,
    assignment: Assignment,
    *,
    search: Path | None,
    audit: Path | None,
    experience: "XDB | None",
    knowledge: "Library | None",
    memory: bool,
    take_over: bool,
) -> AsyncIterator[tuple[Client, LiveSession]]:
    sandbox, directory = await start_sandbox(
        assignment.sandbox, folder=Path(assignment.workspace), network=assignment.network
    )
    try:
        async with connect(
            store=store,
            sandbox=sandbox,
            directory=directory,
            search=search,
            audit=audit,
            experience=experience,
            knowledge=knowledge,
            memory=Path(assignment.workspace) if memory else None,
        ) as client:
            session = await _session(client, assignment, directory, take_over=take_over)
            if experience is not None:
                policy = session.policy if isinstance(session.policy, Economy) else Economy()
                recorded = recorded_session(session.session_id)
                await experience.start_session(recorded, policy.window_tokens)
            yield client, session
    finally:
        await sandbox.close()


async def _session(
    client: Client, assignment: Assignment, directory: str, *, take_over: bool
) -> LiveSession:
    task_prompt, policy = TASK_PROMPT.format(directory=directory), assignment.policy
    try:
        session = await client.resume(assignment.session, take_over=take_over)
    except NotFound:
        policy = policy or ECONOMY
        system_prompt = task_prompt + guide(policy)
        return await client.start(assignment.session, system_prompt=system_prompt, policy=policy)
    if policy not in {None, session.policy_name}:
        await session.change_policy(policy)
    if assignment.started_here:
        await session.change_system_prompt(task_prompt + guide(session.policy))
    return session


async def _store_task(
    store: Store, assignment: Assignment, task: str | None, session: LiveSession
) -> str:
    """Store the assignment before working on it; return the next user message."""
    if task is not None:
        assignment = assignment.with_task(task, chat=session.chat)
    user = assignment.user_message(session.chat)
    await store.commit([Put(assignment.to_document())])
    return user


@asynccontextmanager
async def _pausing(client: Client, session: LiveSession) -> AsyncIterator[None]:
    """Pause the session at the end, also after an error or a cancellation."""
    try:
        yield
    except BaseException:
        try:
            await client.pause(session.session_id)
        except CtxmgrError as error:  # the store may be unreachable: the first error says why
            logging.getLogger(__name__).warning("the session is not marked as paused: %s", error)
        raise
    await client.pause(session.session_id)


def _result(session_id: str, outcome: str, events: Sequence[TurnEnded | AnswerRestarted]) -> Run:
    turns = tuple(event for event in events if isinstance(event, TurnEnded))
    ledger = Ledger()
    for turn in turns:
        ledger = ledger.charged(turn.charge)
    return Run(
        session=session_id,
        outcome=outcome,
        answer=turns[-1].text if turns else "",
        turns=turns,
        lost=len(events) - len(turns),
        ledger=ledger,
    )
