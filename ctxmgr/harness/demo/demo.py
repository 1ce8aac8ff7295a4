"""The demo: a scripted agent fixes a small project, and shows what ctxmgr does.

    exploring          files are discovered and read; old outputs are shortened
    an outside edit    a tracker stores the new version
    pause, resume      a second client, in another sandbox, with other mounts
    looking back       an earlier prompt, verified by its hash; what was true, what was believed
    its experience     what was said, as it was recorded token by token; needs an extra
    its memory         an error and its fix, in the prompt of a new session; needs an extra
    its notes          a topic, a lesson, and a session that knows it; needs an extra

Runs a sandbox, and writes to a temporary folder and to the given store. The loop is that of
``ctxmgr run``, and all figures come from the client or the store.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from ctxmgr import File, connect, from_document, guide
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import ExtraMissing, Unavailable, requires_extra
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.harness.demo.learnt import demo_user, what_it_learnt
from ctxmgr.harness.demo.lessons import learn_a_lesson
from ctxmgr.harness.demo.report import (
    Chapter,
    ChapterStarted,
    Demo,
    DemoPart,
    DemoStarted,
    FactsFound,
    PromptCosts,
    TurnShown,
    TurnWatcher,
    object_at,
    paths,
    try_next,
)
from ctxmgr.harness.demo.task import (
    BEFORE_THE_EDIT,
    BEFORE_THE_PAUSE,
    GO_ON,
    RULE,
    SYSTEM_PROMPT,
    TASK,
    agent,
    create_project,
    tests_pass,
)
from ctxmgr.harness.demo.workplace import Workplace, workplace
from ctxmgr.harness.loop import TURNS_MAX, work
from ctxmgr.harness.loop_events import LoopEvent
from ctxmgr.harness.stream_recorder import StreamRecorder
from ctxmgr.messages import anthropic

if TYPE_CHECKING:
    from ctxmgr.experience.xdb import XDB

LOOK_BACK: Final = 3
"""The turn whose prompt is rebuilt."""

POLICY: Final = "economy"

RECEIPTS: Final = 36
"""With them a verbose run of the tests has about 180 lines, as in a small real project."""


async def look_back(
    client: Client, session: LiveSession, *, received: Sequence[Document]
) -> tuple[tuple[Mapping[str, str], ...], bool]:
    """Rebuild an earlier prompt; return also whether it is what was sent."""
    session_id = session.session_id
    record = await client.store.get(f"turn:{session_id}:{LOOK_BACK}")
    assert record is not None
    recorded = str(record.document["prompt_hash"])
    prompt = await client.prompt_as_of(session_id, turn=LOOK_BACK)
    rebuilt = anthropic.payload(prompt)
    same = _without_cache_marks(rebuilt) == _without_cache_marks(received[LOOK_BACK - 1])
    answers = {
        f"hash recorded with turn {LOOK_BACK}": recorded,
        "hash of the rebuilt prompt": prompt.prompt_hash(),
        "what the model received, byte for byte": "yes" if same else "no",
    }
    facts = tuple({"asked": question, "answer": answer} for question, answer in answers.items())
    return facts, same and recorded == prompt.prompt_hash()


def _without_cache_marks(value: Any) -> Any:
    """Return a request without the marks for the provider's cache, which no model sees."""
    if isinstance(value, Mapping):
        return {
            name: _without_cache_marks(member)
            for name, member in value.items()
            if name != "cache_control"
        }
    return [_without_cache_marks(item) for item in value] if isinstance(value, list) else value


async def true_and_believed(
    client: Client, session: LiveSession, *, at: int
) -> tuple[Mapping[str, str], ...]:
    """Compare what was believed and what was true of tally.conf before its change was known."""
    object_id = object_at(session, "tally.conf")
    believed = await client.believed_at(object_id, instant=at)
    true = await client.true_at(object_id, instant=at)
    return (
        {"asked": "What did the agent believe then?", "answer": _line(believed)},
        {"asked": "What was true then?", "answer": _line(true)},
    )


async def experienced(xdb: "XDB") -> tuple[Mapping[str, str], ...]:
    """Ask the agent's experience what was said, by SQL and by text."""
    counted = await xdb.experience_log.sql(
        "SELECT count(*) FILTER (event_type = 'input'), count(*) FILTER (event_type = 'output'),"
        " count(DISTINCT event_id) FILTER (event_type = 'output') FROM timesteps"
    )
    inputs, pieces, answers = counted.rows[0]
    cents = await xdb.recall(text_search="cent", event_types=["output"])
    context = xdb.get_context_state()
    return (
        {
            "asked": "How much was recorded while it was streamed?",
            "answer": f"{inputs} inputs, and {pieces} pieces of {answers} answers",
        },
        {
            "asked": "Where did the agent speak of a cent?",
            "answer": f"at {', '.join(f'tick {step.tick}' for step in cents)}",
        },
        {
            "asked": "How full is its context, in words?",
            "answer": f"{context['current_tokens']} of {context['max_tokens']:,}",
        },
    )


def _line(stored: object) -> str:
    assert isinstance(stored, File)
    return " · ".join((stored.content or "").split())


HERE: Final = "/workspace/tally"
NOTES: Final = "/workspace/notes"
ELSEWHERE: Final = "/elsewhere/tally"

NOTICE_SECONDS: Final = 30.0
"""For a tracker to notice an edit; usually a fraction of a second, or one if files are polled."""

LATE: Final = "SHOP=corner\n"
"""A line that was added to tally.conf during turn 8, and arrives while the session is paused."""

_OTHER_MOUNTS: Final = "The second has another sandbox and other mounts, so paths differ."
_NO_MOUNTS: Final = "The second has no sandbox either, so paths are the same."


async def run_demo(
    url: str | None = None,
    *,
    on_part: Callable[[DemoPart], None] = lambda _: None,
    kept: bool = True,
    program: str = "ctxmgr",
) -> Demo:
    """Run the demo on a store; without a URL, on a temporary one.

    ``on_part`` is called with each part as soon as it has happened. ``kept`` says whether the given
    store will exist afterwards. ``program`` is how the reader starts ``ctxmgr``.
    """
    with TemporaryDirectory(prefix="ctxmgr-demo-") as name:
        project = await asyncio.to_thread(create_project, Path(name), receipts=RECEIPTS)
        own = f"sqlite:///{project.parent / 'demo.db'}"
        async with _experience(Path(name) / "experience") as xdb:
            run = _DemoRun(url or own, project, on_part, xdb)
            return await run.run(kept=kept and url is not None, program=program)


@asynccontextmanager
async def _experience(folder: Path) -> "AsyncIterator[XDB | None]":
    """Open an experience for the demo; None without the extra that it needs."""
    try:
        with requires_extra("experience", "duckdb", "numpy", "pyarrow"):
            from ctxmgr.experience.xdb import XDB  # noqa: PLC0415 (it needs an extra)
    except ExtraMissing:
        yield None
        return
    async with XDB(folder, "demo") as xdb:
        yield xdb


class _BeforePause(NamedTuple):
    """What was known when the session was paused."""

    files: Mapping[str, str]
    """By id: the hash of the known version."""
    changed_at: int
    """When tally.conf changed, by its modification time."""


class _AfterResume(NamedTuple):
    """What the second client found out."""

    engine: str
    url: str
    """Without credentials."""
    proven: bool


class _DemoRun:
    """One run of the demo."""

    def __init__(
        self,
        url: str,
        project: Path,
        on_part: Callable[[DemoPart], None],
        xdb: "XDB | None",
    ) -> None:
        self._url, self._project, self._on_part = url, project, on_part
        self._xdb = xdb
        self._recorder = StreamRecorder(WorkspaceHooks(xdb))
        self._user = demo_user()
        self._id = f"demo-{uuid4().hex[:8]}"
        self._system_prompt = f"{SYSTEM_PROMPT}\n\n{guide(POLICY)}"
        self._counter = TokenCounter()
        self._costs = PromptCosts(self._counter, system_prompt=self._system_prompt)
        self._model = agent(verbose=True)
        self._chapters: list[Chapter] = []

    async def run(self, *, kept: bool, program: str) -> Demo:
        if self._xdb is not None:
            await self._xdb.start_session(self._id)
        notes = {NOTES: (self._project.parent / "notes", f"laptop-{self._id}")}
        async with (
            workplace(self._project, at=HERE, besides=notes) as place,
            connect(
                self._url,
                sandbox=place.sandbox,
                directory=place.directory,
                policy=POLICY,
                memory=self._user,
            ) as client,
        ):
            session = await client.start(self._id, system_prompt=self._system_prompt)
            await self._begin(client, place)
            await self._explore(session)
            await self._outside_edit(client, session)
            await client.pause(self._id)
        left = await self._while_paused()
        async with workplace(self._project, at=ELSEWHERE) as place:
            found = await self._second_client(place, left)
            await self._look_at_experience()
            await self._look_at_memory()
            await self._look_at_notes()
            turns = [turn for chapter in self._chapters for turn in chapter.turns]
            return Demo(
                session=self._id,
                store=found.engine,
                sandbox=place.name,
                tokens_by=self._counter.vocabulary.name,
                chapters=tuple(self._chapters),
                tokens=sum(turn.tokens for turn in turns),
                append_only_tokens=sum(turn.append_only_tokens for turn in turns),
                cost_ratio=self._costs.cost / self._costs.append_only_cost,
                fixed=await tests_pass(place.sandbox, directory=place.directory),
                proven=found.proven,
                try_next=try_next(found.url if kept else None, session=self._id, program=program),
            )

    async def _begin(self, client: Client, place: Workplace) -> None:
        status = await client.store.status()
        self._on_part(
            DemoStarted(
                session=self._id,
                store=status.engine,
                sandbox=place.name,
                tokens_by=self._counter.vocabulary.name,
            )
        )

    async def _explore(self, session: LiveSession) -> None:
        self._chapter(
            "An agent explores a project",
            f"“{TASK}” Every file and output is stored. The next prompt shows it whole; later "
            "prompts shorten what is long and no longer in use, and keep a handle to it.",
        )
        await self._work(session, user=TASK, until=BEFORE_THE_EDIT)

    async def _outside_edit(self, client: Client, session: LiveSession) -> None:
        self._chapter(
            "Someone else edits a file",
            "Someone adds a rule to the README, outside the sandbox. The tracker stores the new "
            "version, and the next prompt reports the difference. The agent fixes two files.",
        )
        readme = self._project / "README.md"
        await asyncio.to_thread(_append, readme, RULE)
        await _wait_for_text(client, session, RULE.strip())
        file_id = object_at(session, "README.md")
        versions = len((await client.store.history(file_id, documents=False)).entries)
        self._facts(({"file": "README.md", "stored versions": str(versions)},))
        await self._work(session, until=BEFORE_THE_PAUSE)

    async def _while_paused(self) -> _BeforePause:
        """Change files while the session is not open."""
        async with connect(self._url, tracking=False) as client:
            index = (await client.stored_sets(self._id)).session_index
            stored = await client.store.get_many(index)
            turn_record = await client.store.get(f"turn:{self._id}:{BEFORE_THE_PAUSE - 1}")
            assert turn_record is not None
            changed_at = turn_record.valid_time + 1
        conf = self._project / "tally.conf"
        await asyncio.to_thread(_append, conf, LATE)
        os.utime(conf, ns=(changed_at * 10**6,) * 2)
        (self._project / "receipts" / "tuesday.txt").unlink()
        files = {
            object_id: str(version.document["object_hash"])
            for object_id, version in stored.items()
            if version.document["type"] == "file"
        }
        return _BeforePause(files, changed_at)

    async def _second_client(self, place: Workplace, left: _BeforePause) -> _AfterResume:
        isolated = place.sandbox.describe().isolates
        self._chapter(
            "Paused, and resumed elsewhere",
            f"“{GO_ON}” The first client is gone. {_OTHER_MOUNTS if isolated else _NO_MOUNTS} "
            "Everything comes from the store. The agent asks for a shortened output again.",
        )
        async with connect(
            self._url, sandbox=place.sandbox, directory=place.directory, memory=self._user
        ) as client:
            session = await client.resume(self._id)
            self._facts(await self._reconciled(client, session, left.files))
            await self._work(session, user=GO_ON, until=None)
            self._chapter(
                f"Turn {LOOK_BACK}, once more",
                f"What exactly did the model see in turn {LOOK_BACK}? The second client rebuilds "
                "the prompt from the store alone, and its hash proves that it is the same.",
            )
            looked, proven = await look_back(client, session, received=self._model.received)
            self._facts(looked)
            self._chapter(
                "What was true, and what was believed",
                "tally.conf was changed on another machine during turn 8, but read only when the "
                "session was resumed. The store answers both questions.",
            )
            self._facts(await true_and_believed(client, session, at=left.changed_at))
            status = await client.store.status()
            return _AfterResume(engine=status.engine, url=status.url, proven=proven)

    async def _look_at_experience(self) -> None:
        if self._xdb is None:
            return
        self._chapter(
            "What it experienced",
            "Both clients recorded what the agent read and wrote while it was streamed, piece by "
            "piece. Such a log answers by text, concept, tag or SQL, also while agents work.",
        )
        await self._xdb.flush()
        self._facts(await experienced(self._xdb))

    async def _look_at_memory(self) -> None:
        if self._user is None:
            return
        facts = await what_it_learnt(self._url, self._user, session=self._id)
        self._chapter(
            "What it learnt",
            "Behind the turns, rules found what the session taught: the error, and the change that "
            "made the same command pass. A new session is told, without asking.",
        )
        self._facts(facts)

    async def _look_at_notes(self) -> None:
        facts = await learn_a_lesson(self._project.parent)
        if not facts:
            return
        self._chapter(
            "What it keeps for later",
            "Notes are markdown files. A topic's trigger put its instructions into the prompt, the "
            "agent followed them and wrote a note, and a new session shows it without being asked.",
        )
        self._facts(facts)

    async def _reconciled(
        self, client: Client, session: LiveSession, left: Mapping[str, str]
    ) -> tuple[Mapping[str, str], ...]:
        orphaned = frozenset(client.reconciliation(self._id).orphaned)
        stored, called = await client.store.get_many(left), paths(session.context())
        rows = []
        for object_id, before in left.items():
            file = from_document(stored[object_id].document)
            assert isinstance(file, File)
            change = _change(file, before=before, orphaned=object_id in orphaned)
            if change is not None:
                rows.append({"file, as it is called here": called[object_id], "found": change})
        same = len(left) - len(rows)
        return (*rows, {"file, as it is called here": f"{same} others", "found": "unchanged"})

    async def _work(self, session: LiveSession, *, until: int | None, user: str = "") -> None:
        """Let the agent work until a turn, or until it is done."""
        watcher = TurnWatcher(session, user=user, costs=self._costs, on_turn=self._turn)

        def on_event(event: LoopEvent) -> None:
            self._recorder.on_event(event)
            watcher.on_event(event)

        await work(
            session,
            model=self._model,
            user=user,
            max_turns=TURNS_MAX if until is None else until - session.turn + 1,
            on_event=on_event,
            counter=self._counter,
        )

    def _chapter(self, title: str, says: str) -> None:
        self._chapters.append(Chapter(title=title, says=says))
        self._on_part(ChapterStarted(number=len(self._chapters), title=title, says=says))

    def _turn(self, turn: TurnShown) -> None:
        chapter = self._chapters[-1]
        self._chapters[-1] = replace(chapter, turns=(*chapter.turns, turn))
        self._on_part(turn)

    def _facts(self, facts: tuple[Mapping[str, str], ...]) -> None:
        self._chapters[-1] = replace(self._chapters[-1], facts=facts)
        self._on_part(FactsFound(facts=facts))


async def _wait_for_text(client: Client, session: LiveSession, text: str) -> None:
    assert client.tracking is not None
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            await client.tracking.wait_for(lambda: text in session.context().text())
    except TimeoutError as error:
        reasons = "; ".join(client.tracking.notices) or "it gave no reason"
        raise Unavailable(f"no tracker noticed an edit in {NOTICE_SECONDS} s: {reasons}") from error


def _change(file: File, *, before: str, orphaned: bool) -> str | None:
    if orphaned:
        return "out of reach here: orphaned, its last version stays"
    if file.object_hash == before:
        return None
    return "changed: a new version" if file.content is not None else "deleted: its history stays"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
