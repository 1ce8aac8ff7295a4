"""Indexing and discovery of many files, and the fingerprints that spare reading them."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.core import indexing
from ctxmgr.core.contents import FileState
from ctxmgr.core.fingerprints import Fingerprints
from ctxmgr.core.index_plans import Result
from ctxmgr.core.indexing import Indexing
from ctxmgr.core.observing import Target
from ctxmgr.core.store import Commit, Operation, Store, Version
from ctxmgr.errors import OutcomeUnknown, Unavailable
from tests.core.projects import BOTH_STORES, LATER_NS, Project, opened_project


@pytest.fixture(params=BOTH_STORES)
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, request.param, request) as opened:
        yield opened


def paths(project: Project, *, count: int) -> list[str]:
    for number in range(count):
        project.write(f"{number % 3}/{number}.txt", b"text %d" % number)
    return [f"/w/{number % 3}/{number}.txt" for number in range(count)]


async def index_all(project: Project, names: list[str]) -> list[Target]:
    found = [each async for batch in project.indexing.index_many(names) for each in batch]
    return [Target.of(each.file) for each in found if each.file is not None]


async def test_many_files_come_in_bounded_batches(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R169: ten thousand files are neither one transaction nor ten thousand."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_FILES_MAX", 4)

    batches = [each async for each in project.indexing.index_many(paths(project, count=10))]

    assert [len(each) for each in batches] == [4, 4, 2]
    assert {each.result for batch in batches for each in batch} == {Result.CREATED}


async def test_large_files_make_small_batches(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read at once is held in memory at once."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_BYTES_MAX", 10)

    batches = [each async for each in project.indexing.index_many(paths(project, count=5))]

    assert [len(each) for each in batches] == [2, 2, 1]


async def test_only_what_changed_is_read_again(project: Project) -> None:
    """003-R116: a checkout that touched two files of many costs two readings."""
    names = paths(project, count=6)
    project.ahead_ns = LATER_NS
    targets = await index_all(project, names)
    project.write("1/1.txt", b"changed")
    (project.root / "2/2.txt").unlink()

    batches = [each async for each in project.indexing.reconcile(targets)]

    outcomes = [each for batch in batches for each in batch.outcomes]
    assert sum(len(each.proven) for each in batches) == 4
    assert [each.state for each in outcomes] == [FileState.LIVE, FileState.DELETED]


async def test_a_file_changed_within_the_clocks_grain_is_read_again(project: Project) -> None:
    """003-R116: same size, same times, other bytes: a look would not have told."""
    path = project.write("a.txt", b"old")
    before = path.stat()
    (target,) = await index_all(project, ["/w/a.txt"])
    path.write_bytes(b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    batches = [each async for each in project.indexing.reconcile([target])]

    (outcome,) = batches[-1].outcomes
    assert outcome.result is Result.UPDATED


async def test_fingerprints_outlive_the_process(project: Project, tmp_path: Path) -> None:
    """Resuming on the same machine reads nothing that has not changed."""
    project.ahead_ns = LATER_NS
    saved = Fingerprints(tmp_path / "cache" / "fingerprints.json")
    writer = project.another_client(saved)
    names = paths(project, count=3)
    found = [each async for batch in writer.index_many(names) for each in batch]
    saved.save()
    loaded = Fingerprints(tmp_path / "cache" / "fingerprints.json")
    loaded.load()

    targets = [Target.of(each.file) for each in found if each.file is not None]
    batches = [each async for each in project.another_client(loaded).reconcile(targets)]

    assert [len(each.proven) for each in batches] == [3]


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"format":1,"files":{"a":[1]}}', b"\xff"])
def test_damaged_fingerprints_are_none(tmp_path: Path, damaged: bytes) -> None:
    """It is a cache: without it every file is read, and nothing is wrong."""
    file = tmp_path / "fingerprints.json"
    file.write_bytes(damaged)
    loaded = Fingerprints(file)

    loaded.load()

    assert loaded.count == 0


async def test_discovery_makes_stubs_of_files_and_of_nothing_else(project: Project) -> None:
    """003-R176, 003-R177, 003-A24: folders, words and missing paths are noise."""
    project.write("src/main.py", b"text")
    noise = ["/w/src", "/w/missing.py", "v1.2/3", "/w/src/main.py", "/w/\0"]

    (plan,) = await project.indexing.plan_discovery(noise)
    (outcome,) = await project.indexing.apply(plan)

    assert (outcome.result, outcome.state) == (Result.CREATED, FileState.STUB)
    assert outcome.file is not None
    assert (outcome.file.file_type, outcome.file.char_count) == ("py", 0)


async def test_discovery_never_overwrites(project: Project) -> None:
    """003-R178: a grep over files that were read must not make them unread."""
    project.write("a.txt", b"text")
    read = await project.indexing.index("/w/a.txt")

    (plan,) = await project.indexing.plan_discovery(["/w/a.txt"])

    assert plan.operations == ()
    assert [each.result for each in plan.outcomes] == [Result.UNCHANGED]
    assert plan.outcomes[0].file == read.file


async def test_a_stub_that_another_client_was_faster_with_is_dropped(project: Project) -> None:
    """003-R178, 003-R185: the rest of the paths are still met."""
    names = paths(project, count=3)
    (plan,) = await project.indexing.plan_discovery(names)
    await project.another_client().index(names[1])

    outcomes = await project.indexing.apply(plan)

    results = [each.result for each in outcomes]
    assert results == [Result.CREATED, Result.UNCHANGED, Result.CREATED]
    assert outcomes[1].state is FileState.LIVE


async def test_objects_that_the_session_knows_are_not_asked_for(project: Project) -> None:
    """003-R178: most of what a search finds was found before."""
    project.write("a.txt", b"text")
    read = await project.indexing.index("/w/a.txt")

    assert await project.indexing.plan_discovery(["/w/a.txt"], known={read.object_id}) == []


async def test_many_stubs_are_planned_in_several_transactions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R177: a listing of a large tree does not make one enormous transaction."""
    monkeypatch.setattr(indexing, "DISCOVERY_BATCH_MAX", 2)

    plans = await project.indexing.plan_discovery(paths(project, count=5))

    assert [len(each.outcomes) for each in plans] == [2, 2, 1]


async def test_the_sandbox_is_asked_about_its_own_files(project: Project) -> None:
    """003-A24: the host cannot tell what is a file there; where nobody can, paths are taken."""

    async def inside(asked: Sequence[str]) -> Collection[str]:
        return [each for each in asked if each == "/etc/hosts"]

    (asked,) = await project.indexing.plan_discovery(["/etc/hosts", "/etc"], inside=inside)
    (unasked,) = await project.indexing.plan_discovery(["/etc/hosts", "/etc"])

    assert [each.source.path for each in asked.outcomes] == ["/etc/hosts"]
    assert [each.source.path for each in unasked.outcomes] == ["/etc/hosts", "/etc"]


class Overtaken:
    """A real store before whose first answer another client stores something newer."""

    def __init__(self, store: Store, overtake: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._overtake: Callable[[], Awaitable[object]] | None = overtake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, ids: Iterable[str]) -> dict[str, Version]:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            await overtake()
        return await self._store.get_many(ids)


async def test_what_another_client_stored_meanwhile_is_not_overwritten(project: Project) -> None:
    """Of two clients that index one file, the one with the older bytes reads again."""
    (name,) = paths(project, count=1)

    async def overtake() -> None:
        project.write("0/0.txt", b"newer")
        await project.another_client().index(name)

    late: Any = Overtaken(project.store, overtake)
    ours = Indexing(late, project.files, fingerprints=Fingerprints())
    outcomes = [each async for batch in ours.index_many([name]) for each in batch]

    assert [each.result for each in outcomes] == [Result.UNCHANGED]
    assert len(await project.history(outcomes[0].object_id)) == 1
    assert outcomes[0].file is not None
    assert outcomes[0].file.content == "newer"


class Broken:
    """A real store that answers once, and then neither reads nor says what became of a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, ids: Iterable[str]) -> dict[str, Version]:
        self._reads += 1
        if self._reads > 1:
            raise Unavailable("no reading")
        return await self._store.get_many(ids)

    async def commit(self, operations: Sequence[Operation]) -> Commit:
        raise OutcomeUnknown("k1", f"{len(operations)} operations sent")


async def test_a_commits_error_is_told_before_the_next_readings(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever hears that nothing can be read would believe that nothing was written either."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_FILES_MAX", 1)
    broken: Any = Broken(project.store)
    ours = Indexing(broken, project.files, fingerprints=Fingerprints())

    with pytest.raises(OutcomeUnknown):
        async for _ in ours.index_many(paths(project, count=2)):
            pass
