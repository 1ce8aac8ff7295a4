"""The demo: a scripted agent fixes a small project, and shows what ctxmgr does.

    exploring          files are discovered and read; old outputs fold automatically
    an outside edit    a tracker stores the new version
    pause, resume      a second client, in another sandbox, with other mounts
    looking back       an earlier prompt, verified by its hash; what was true, what was believed

Runs a sandbox, and writes to a temporary folder and to the given store. The loop is that of
``ctxmgr run``, and all figures come from the client or the store.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from uuid import uuid4

from ctxmgr import File, connect, from_document
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Unavailable
from ctxmgr.harness.demo.report import (
    Chapter,
    Demo,
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
from ctxmgr.messages import anthropic

LOOK_BACK: Final = 3
"""The turn whose prompt is rebuilt."""


async def look_back(
    client: Client, session: LiveSession, *, received: Sequence[Document]
) -> tuple[Chapter, bool]:
    """Rebuild an earlier prompt; return also whether it is what was sent."""
    session_id = session.session_id
    record = await client.store.get(f"turn:{session_id}:{LOOK_BACK}")
    assert record is not None
    recorded = str(record.document["prompt_hash"])
    prompt = await client.prompt_as_of(session_id, turn=LOOK_BACK)
    same = anthropic.payload(prompt) == received[LOOK_BACK - 1]
    readme = object_at(session, "README.md")
    answers = {
        f"hash recorded with turn {LOOK_BACK}": recorded,
        "hash of the prompt made again": prompt.prompt_hash(),
        "what the model received, byte for byte": "yes" if same else "no",
        "README.md was called": paths(prompt)[readme],
        "and is called here": paths(session.context())[readme],
    }
    chapter = Chapter(
        title=f"Turn {LOOK_BACK}, once more",
        says=f"What exactly did the model see in turn {LOOK_BACK}? The second client rebuilds the "
        "prompt from the store alone, and its hash proves that it is the same.",
        facts=tuple({"asked": question, "answer": answer} for question, answer in answers.items()),
    )
    return chapter, same and recorded == prompt.prompt_hash()


async def true_and_believed(client: Client, session: LiveSession, *, at: int) -> Chapter:
    """Compare what was believed and what was true of tally.conf before its change was known."""
    object_id = object_at(session, "tally.conf")
    believed = await client.believed_at(object_id, instant=at)
    true = await client.true_at(object_id, instant=at)
    return Chapter(
        title="What was true, and what was believed",
        says="tally.conf was changed on another machine during turn 8, but read only "
        "when the session was resumed. The store answers both questions.",
        facts=(
            {"asked": "What did the agent believe then?", "answer": _line(believed)},
            {"asked": "What was true then?", "answer": _line(true)},
        ),
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
    url: str | None = None, *, say: Callable[[str], None], kept: bool = True
) -> Demo:
    """Run the demo on a store; without a URL, on a temporary one.

    ``kept`` says whether the given store will exist afterwards.
    """
    with TemporaryDirectory(prefix="ctxmgr-demo-") as name:
        project = await asyncio.to_thread(create_project, Path(name))
        own = f"sqlite:///{project.parent / 'demo.db'}"
        return await _DemoRun(url or own, project, say).run(kept=kept and url is not None)


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

    def __init__(self, url: str, project: Path, say: Callable[[str], None]) -> None:
        self._url, self._project, self._say = url, project, say
        self._id = f"demo-{uuid4().hex[:8]}"
        self._counter = TokenCounter()
        self._model = agent()
        self._chapters: list[Chapter] = []

    async def run(self, *, kept: bool) -> Demo:
        notes = {NOTES: (self._project.parent / "notes", f"laptop-{self._id}")}
        async with (
            workplace(self._project, at=HERE, besides=notes) as place,
            connect(self._url, sandbox=place.sandbox, directory=place.directory) as client,
        ):
            session = await client.start(self._id, system_prompt=SYSTEM_PROMPT)
            await self._explore(session)
            await self._outside_edit(client, session)
            await client.pause(self._id)
        left = await self._while_paused()
        async with workplace(self._project, at=ELSEWHERE) as place:
            found = await self._second_client(place, left)
            mended = await tests_pass(place.sandbox, directory=place.directory)
            return Demo(
                session=self._id,
                store=found.engine,
                sandbox=place.name,
                tokens_by=self._counter.vocabulary.name,
                chapters=tuple(self._chapters),
                mended=mended,
                proven=found.proven,
                try_next=try_next(found.url if kept else None, session=self._id),
            )

    async def _explore(self, session: LiveSession) -> None:
        turns = await self._work(session, user=TASK, until=BEFORE_THE_EDIT)
        says = (
            f"“{TASK}” Files that it finds become lines in the pool, files that it reads are shown "
            "in full, and outputs of earlier turns are folded, each to its line with its id."
        )
        self._add_chapter("An agent looks around", says, turns=turns)

    async def _outside_edit(self, client: Client, session: LiveSession) -> None:
        self._say("waiting until the tracker notices an edit")
        readme, sets = self._project / "README.md", session.sets
        await asyncio.to_thread(_append, readme, RULE)
        await _wait_for_text(client, session, RULE.strip())
        file_id = object_at(session, "README.md")
        versions = len((await client.store.history(file_id, documents=False)).entries)
        untouched = "as they were" if session.sets == sets else "changed"
        fact = {"file": "README.md", "versions": str(versions), "sets": untouched}
        turns = await self._work(session, until=BEFORE_THE_PAUSE)
        says = (
            "Someone adds a rule to the README, outside the sandbox. The tracker stores the new "
            "version, and the next prompt shows it; what is shown in full remains the agent's "
            "choice. It pins the failing run, fixes two files and folds what it no longer needs."
        )
        self._add_chapter("Someone else edits a file", says, turns=turns, facts=(fact,))

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
        self._say("resuming with other mounts")
        async with connect(self._url, sandbox=place.sandbox, directory=place.directory) as client:
            session = await client.resume(self._id)
            facts = await self._reconciled(client, session, left.files)
            turns = await self._work(session, user=GO_ON, until=None)
            isolated = place.sandbox.describe().isolates
            says = (
                f"“{GO_ON}” The first client is gone. {_OTHER_MOUNTS if isolated else _NO_MOUNTS} "
                "Sets, chat and turns come from the store. The agent activates a folded output."
            )
            self._add_chapter("Paused, and resumed elsewhere", says, facts=facts, turns=turns)
            self._say("looking back")
            looked, proven = await look_back(client, session, received=self._model.received)
            believed = await true_and_believed(client, session, at=left.changed_at)
            self._chapters += [looked, believed]
            status = await client.store.status()
            return _AfterResume(engine=status.engine, url=status.url, proven=proven)

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
        return (*rows, {"file, as it is called here": f"{same} others", "found": "as they were"})

    async def _work(
        self, session: LiveSession, *, until: int | None, user: str = ""
    ) -> tuple[TurnShown, ...]:
        """Let the agent work until a turn, or until it is done."""
        watcher = TurnWatcher(session)
        self._say(f"turn {session.turn} and on")
        await work(
            session,
            model=self._model,
            user=user,
            max_turns=TURNS_MAX if until is None else until - session.turn + 1,
            on_event=watcher.on_event,
            counter=self._counter,
        )
        return tuple(watcher.turns)

    def _add_chapter(
        self,
        title: str,
        says: str,
        *,
        turns: tuple[TurnShown, ...] = (),
        facts: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        self._chapters.append(Chapter(title=title, says=says, turns=turns, facts=facts))


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
