"""Indexing and discovery of many files, and the fingerprints that avoid reading them."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.objects.envelope import sourced_id
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Commit, Operation, Store, Version
from ctxmgr.core.tracking import indexing
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexResult
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.core.tracking.observation import Target
from ctxmgr.errors import OutcomeUnknown, Unavailable
from tests.core.builders.projects import BOTH_STORES, LATER_NS, Project, index_file, opened_project


@pytest.fixture(params=BOTH_STORES)
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, request.param, request) as opened:
        yield opened


def paths(project: Project, *, count: int) -> list[str]:
    for number in range(count):
        project.write(f"{number % 3}/{number}.txt", b"text %d" % number)
    return [f"/w/{number % 3}/{number}.txt" for number in range(count)]


def unread(project: Project, name: str) -> Target:
    """A file that is not stored yet."""
    location = project.files.mounts.forward(name)
    source = FilesystemSource(filesystem_id=location.filesystem_id, path=location.path)
    object_id = sourced_id(File.kind, source)
    return Target(source=source, object_id=object_id, object_hash=None, is_stub=False)


async def index_batches(
    project: Project, names: list[str], *, client: Indexing | None = None
) -> list[tuple[IndexOutcome, ...]]:
    targets = [unread(project, name) for name in names]
    batches = [batch async for batch in (client or project.indexing).reconcile(targets)]
    return [batch.outcomes for batch in batches if batch.outcomes]


async def index_all(
    project: Project, names: list[str], *, client: Indexing | None = None
) -> list[Target]:
    batches = await index_batches(project, names, client=client)
    outcomes = [outcome for batch in batches for outcome in batch]
    return [Target.of(outcome.file) for outcome in outcomes if outcome.file is not None]


async def test_many_files_are_indexed_in_bounded_batches(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R169: ten thousand files need neither one transaction nor ten thousand."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_FILES_MAX", 4)

    batches = await index_batches(project, paths(project, count=10))

    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert {outcome.result for batch in batches for outcome in batch} == {IndexResult.CREATED}


async def test_large_files_make_small_batches(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a batch are in memory together."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_BYTES_MAX", 12)

    batches = await index_batches(project, paths(project, count=5))

    assert [len(batch) for batch in batches] == [2, 2, 1]


async def test_only_changed_files_are_read_again(project: Project) -> None:
    """003-R116: a checkout that touched two files of many costs two reads."""
    names = paths(project, count=6)
    project.ahead_ns = LATER_NS
    targets = await index_all(project, names)
    project.write("1/1.txt", b"changed")
    (project.root / "2/2.txt").unlink()

    batches = [batch async for batch in project.indexing.reconcile(targets)]

    outcomes = [outcome for batch in batches for outcome in batch.outcomes]
    assert sum(len(batch.proven) for batch in batches) == 4
    assert [outcome.state for outcome in outcomes] == [FileState.LIVE, FileState.DELETED]


async def test_a_file_changed_within_the_clocks_granularity_is_read_again(project: Project) -> None:
    """003-R116: with the same size and times, stat cannot show the change."""
    path = project.write("a.txt", b"old")
    before = path.stat()
    (target,) = await index_all(project, ["/w/a.txt"])
    path.write_bytes(b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    batches = [batch async for batch in project.indexing.reconcile([target])]

    (outcome,) = batches[-1].outcomes
    assert outcome.result is IndexResult.UPDATED


async def test_fingerprints_outlive_the_process(project: Project, tmp_path: Path) -> None:
    """Resuming on the same machine reads nothing that has not changed."""
    project.ahead_ns = LATER_NS
    saved = Fingerprints(tmp_path / "cache" / "fingerprints.json")
    writer = project.another_client(saved)
    names = paths(project, count=3)
    targets = await index_all(project, names, client=writer)
    saved.save()
    loaded = Fingerprints(tmp_path / "cache" / "fingerprints.json")
    loaded.load()

    batches = [batch async for batch in project.another_client(loaded).reconcile(targets)]

    assert [len(batch.proven) for batch in batches] == [3]


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"format":1,"files":{"a":[1]}}', b"\xff"])
def test_damaged_fingerprints_count_as_empty(tmp_path: Path, damaged: bytes) -> None:
    """They are a cache: without them every file is read, with the same result."""
    file = tmp_path / "fingerprints.json"
    file.write_bytes(damaged)
    loaded = Fingerprints(file)

    loaded.load()

    assert loaded.count == 0


async def test_discovery_makes_stubs_only_of_files(project: Project) -> None:
    """003-R176, 003-R177, 003-A24: folders, other words and missing paths are ignored."""
    project.write("src/main.py", b"text")
    noise = ["/w/src", "/w/missing.py", "v1.2/3", "/w/src/main.py", "/w/\0"]

    (plan,) = await project.indexing.plan_discovery(noise)
    (outcome,) = await project.indexing.apply(plan)

    assert (outcome.result, outcome.state) == (IndexResult.CREATED, FileState.STUB)
    assert outcome.file is not None
    assert (outcome.file.file_type, outcome.file.char_count) == ("py", 0)


async def test_discovery_never_overwrites_a_file(project: Project) -> None:
    """003-R178: a grep over files that were read must not make them unread."""
    project.write("a.txt", b"text")
    read = await index_file(project.indexing, "/w/a.txt")

    (plan,) = await project.indexing.plan_discovery(["/w/a.txt"])

    assert plan.operations == ()
    assert [outcome.result for outcome in plan.outcomes] == [IndexResult.UNCHANGED]
    assert plan.outcomes[0].file == read.file


async def test_a_stub_that_another_client_created_first_is_dropped(project: Project) -> None:
    """003-R178, 003-R185: the rest of the paths are still discovered."""
    names = paths(project, count=3)
    (plan,) = await project.indexing.plan_discovery(names)
    await index_file(project.another_client(), names[1])

    outcomes = await project.indexing.apply(plan)

    results = [outcome.result for outcome in outcomes]
    assert results == [IndexResult.CREATED, IndexResult.UNCHANGED, IndexResult.CREATED]
    assert outcomes[1].state is FileState.LIVE


async def test_many_stubs_are_planned_in_several_transactions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R177: listing a large tree must not make one enormous transaction."""
    monkeypatch.setattr(indexing, "DISCOVERY_BATCH_MAX", 2)

    plans = await project.indexing.plan_discovery(paths(project, count=5))

    assert [len(plan.outcomes) for plan in plans] == [2, 2, 1]


async def test_the_sandbox_checks_its_own_files(project: Project) -> None:
    """003-A24: the host cannot check files there; without a check, all paths are accepted."""

    async def inside(asked: Sequence[str]) -> Collection[str]:
        return [path for path in asked if path == "/etc/hosts"]

    (asked,) = await project.indexing.plan_discovery(["/etc/hosts", "/etc"], inside=inside)
    (unasked,) = await project.indexing.plan_discovery(["/etc/hosts", "/etc"])

    assert [outcome.source.path for outcome in asked.outcomes] == ["/etc/hosts"]
    assert [outcome.source.path for outcome in unasked.outcomes] == ["/etc/hosts", "/etc"]


class Overtaken:
    """A real store in which another client writes just before the first commit."""

    def __init__(self, store: Store, overtake: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._overtake: Callable[[], Awaitable[object]] | None = overtake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, operations: Sequence[Operation]) -> Commit:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            await overtake()
        return await self._store.commit(operations)


async def test_a_newer_version_of_another_client_is_not_overwritten(project: Project) -> None:
    """If two clients index one file, the one with the older bytes reads again."""
    (name,) = paths(project, count=1)

    async def overtake() -> None:
        project.write("0/0.txt", b"newer")
        await index_file(project.another_client(), name)

    late: Any = Overtaken(project.store, overtake)
    ours = Indexing(late, project.files, fingerprints=Fingerprints())
    ((*outcomes,),) = await index_batches(project, [name], client=ours)

    assert [outcome.result for outcome in outcomes] == [IndexResult.UNCHANGED]
    assert len(await project.history(outcomes[0].object_id)) == 1
    assert outcomes[0].file is not None
    assert outcomes[0].file.content == "newer"


class Broken:
    """A real store whose second read fails and whose commits have an unknown outcome."""

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


async def test_a_commit_error_is_raised_before_a_read_error(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read error would suggest that nothing was written either."""
    monkeypatch.setattr(indexing, "INDEX_BATCH_FILES_MAX", 1)
    broken: Any = Broken(project.store)
    ours = Indexing(broken, project.files, fingerprints=Fingerprints())

    with pytest.raises(OutcomeUnknown):
        await index_batches(project, paths(project, count=2), client=ours)
