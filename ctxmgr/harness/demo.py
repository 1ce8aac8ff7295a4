"""The demo: an agent mends a little project, and all that ctxmgr is for happens on the way.

    looking around     files are met, read, and old outputs fold by themselves
    an outside edit    a tracker notices; nobody asked
    pause, resume      a second client, in another sandbox, with other mounts
    looking back       an earlier prompt, proven by its hash; what was true, what was believed

Runs a sandbox, writes to a folder of its own and to the store it is given. The agent is a script,
the loop is the one of ``ctxmgr run``, and every figure is asked of the client or of the store.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from uuid import uuid4

from ctxmgr import File, connect, from_document
from ctxmgr.core.client import Client
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.tokens import TokenCounter
from ctxmgr.errors import Unavailable
from ctxmgr.harness.chapters import Chapter, Demo, try_next
from ctxmgr.harness.errand import (
    BEFORE_THE_EDIT,
    BEFORE_THE_PAUSE,
    GO_ON,
    RULE,
    SYSTEM_PROMPT,
    TASK,
    agent,
    lay_out,
    succeeded,
)
from ctxmgr.harness.hindsight import look_back, true_and_believed
from ctxmgr.harness.loop import TURNS_MAX, work
from ctxmgr.harness.watching import TurnShown, Watcher, object_at, paths
from ctxmgr.harness.workplaces import Workplace, workplace

HERE: Final = "/workspace/tally"
NOTES: Final = "/workspace/notes"
ELSEWHERE: Final = "/elsewhere/tally"

NOTICE_SECONDS: Final = 30.0
"""For a tracker to tell of an edit: a moment, or a second where files are polled."""

LATE: Final = "SHOP=corner\n"
"""A line that had been added to tally.conf during turn 8, and arrives while nobody looks."""

_OTHER_MOUNTS: Final = "The second has another sandbox and other mounts, so paths differ."
_NO_MOUNTS: Final = "The second has no sandbox either, so paths are the same."


async def run_demo(
    url: str | None = None, *, say: Callable[[str], None], kept: bool = True
) -> Demo:
    """Run it on that store; None: on a file that is gone afterwards.

    ``kept`` tells whether the store that is given will still be there to be looked at.
    """
    with TemporaryDirectory(prefix="ctxmgr-demo-") as name:
        project = await asyncio.to_thread(lay_out, Path(name))
        own = f"sqlite:///{project.parent / 'demo.db'}"
        return await _Story(url or own, project, say).tell(kept=kept and url is not None)


class _Left(NamedTuple):
    """What the first client left behind."""

    files: Mapping[str, str]
    """By id: the hash of the version that was known."""
    changed_at: int
    """When tally.conf had changed, as its own time says."""


class _Found(NamedTuple):
    """What the second client can tell of the store and of the past in it."""

    engine: str
    url: str
    """Without credentials."""
    proven: bool


class _Story:
    """What the chapters share."""

    def __init__(self, url: str, project: Path, say: Callable[[str], None]) -> None:
        self._url, self._project, self._say = url, project, say
        self._id = f"demo-{uuid4().hex[:8]}"
        self._counter = TokenCounter()
        self._model = agent()
        self._chapters: list[Chapter] = []

    async def tell(self, *, kept: bool) -> Demo:
        notes = {NOTES: (self._project.parent / "notes", f"laptop-{self._id}")}
        async with workplace(self._project, at=HERE, besides=notes) as place:
            await self._first_client(place)
        left = await self._while_paused()
        async with workplace(self._project, at=ELSEWHERE) as place:
            found = await self._second_client(place, left)
            mended = await succeeded(place.sandbox, directory=place.directory)
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

    async def _first_client(self, place: Workplace) -> None:
        async with connect(self._url, sandbox=place.sandbox, directory=place.directory) as client:
            session = await client.start(self._id, system_prompt=SYSTEM_PROMPT)
            await self._look_around(session)
            await self._outside_edit(client, session)
            await client.pause(self._id)

    async def _look_around(self, session: LiveSession) -> None:
        turns = await self._work(session, user=TASK, until=BEFORE_THE_EDIT)
        says = (
            f"“{TASK}” What it finds becomes a line in the pool, what it reads is shown in full, "
            "and outputs of earlier turns fold by themselves. A folded one keeps its line and id."
        )
        self._tell("An agent looks around", says, turns=turns)

    async def _outside_edit(self, client: Client, session: LiveSession) -> None:
        self._say("waiting until the tracker notices an edit")
        readme, sets = self._project / "README.md", session.sets
        await asyncio.to_thread(_append, readme, RULE)
        await _noticed(client, session, RULE.strip())
        file_id = object_at(session, "README.md")
        versions = len((await client.store.history(file_id, documents=False)).entries)
        untouched = "as they were" if session.sets == sets else "changed"
        fact = {"file": "README.md", "versions": str(versions), "sets": untouched}
        turns = await self._work(session, until=BEFORE_THE_PAUSE)
        says = (
            "Somebody adds a rule to the README, outside of the sandbox. The tracker stores the "
            "new version; the next prompt shows it, and what is shown in full stays the agent's "
            "choice. It pins the failing run, mends two files and folds what it is done with."
        )
        self._tell("Somebody else edits a file", says, turns=turns, facts=(fact,))

    async def _while_paused(self) -> _Left:
        """Change the disk while nobody looks."""
        async with connect(self._url, tracking=False) as client:
            index = (await client.stored_sets(self._id)).session_index
            known = await client.store.get_many(index)
            changed_at = await _instant_after(client, self._id, turn=BEFORE_THE_PAUSE - 1)
        conf = self._project / "tally.conf"
        await asyncio.to_thread(_append, conf, LATE)
        os.utime(conf, ns=(changed_at * 10**6,) * 2)
        (self._project / "receipts" / "tuesday.txt").unlink()
        documents = {each: version.document for each, version in known.items()}
        files = {each: told for each, told in documents.items() if told["type"] == "file"}
        return _Left({each: files[each]["object_hash"] for each in files}, changed_at)

    async def _second_client(self, place: Workplace, left: _Left) -> _Found:
        self._say("resuming with other mounts")
        async with connect(self._url, sandbox=place.sandbox, directory=place.directory) as client:
            session = await client.resume(self._id)
            facts = await self._reconciled(client, session, left.files)
            turns = await self._work(session, user=GO_ON, until=None)
            isolated = place.sandbox.describe().isolates
            says = (
                f"“{GO_ON}” The first client is gone. {_OTHER_MOUNTS if isolated else _NO_MOUNTS} "
                "Sets, chat and turns come from the store. A folded output is asked back."
            )
            self._tell("Paused, and resumed elsewhere", says, facts=facts, turns=turns)
            self._say("looking back")
            looked, proven = await look_back(client, session, received=self._model.received)
            believed = await true_and_believed(client, session, at=left.changed_at)
            self._chapters += [looked, believed]
            status = await client.store.status()
            return _Found(engine=status.engine, url=status.url, proven=proven)

    async def _reconciled(
        self, client: Client, session: LiveSession, left: Mapping[str, str]
    ) -> tuple[Mapping[str, str], ...]:
        orphaned = frozenset(client.reconciliation(self._id).orphaned)
        known, called = await client.store.get_many(left), paths(session.context())
        rows = []
        for object_id, before in left.items():
            file = from_document(known[object_id].document)
            assert isinstance(file, File)
            happened = _happened(file, before=before, orphaned=object_id in orphaned)
            if happened is not None:
                rows.append({"file, as it is called here": called[object_id], "found": happened})
        same = len(left) - len(rows)
        return (*rows, {"file, as it is called here": f"{same} others", "found": "as they were"})

    async def _work(
        self, session: LiveSession, *, until: int | None, user: str = ""
    ) -> tuple[TurnShown, ...]:
        """Let the agent work until that turn, or until it is done."""
        watcher = Watcher(session)
        self._say(f"turn {session.turn} and on")
        await work(
            session,
            model=self._model,
            user=user,
            turns_max=TURNS_MAX if until is None else until - session.turn + 1,
            hear=watcher.hear,
            counter=self._counter,
        )
        return tuple(watcher.turns)

    def _tell(
        self,
        title: str,
        says: str,
        *,
        turns: tuple[TurnShown, ...] = (),
        facts: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        self._chapters.append(Chapter(title=title, says=says, turns=turns, facts=facts))


async def _noticed(client: Client, session: LiveSession, text: str) -> None:
    assert client.tracking is not None
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            await client.tracking.wait_for(lambda: text in session.context().text())
    except TimeoutError as error:
        told = "; ".join(client.tracking.notices) or "it gave no reason"
        raise Unavailable(f"no tracker noticed an edit in {NOTICE_SECONDS} s: {told}") from error


async def _instant_after(client: Client, session_id: str, *, turn: int) -> int:
    version = await client.store.get(f"turn:{session_id}:{turn}")
    assert version is not None
    return version.valid_time + 1


def _happened(file: File, *, before: str, orphaned: bool) -> str | None:
    if orphaned:
        return "out of reach here: orphaned, its last version stays"
    if file.object_hash == before:
        return None
    return "changed: a new version" if file.content is not None else "deleted: its history stays"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
