"""Whatever a bundle holds, no other session changes, and only our errors come out."""

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxmgr import CtxmgrError
from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.sessions.bundle_io import export_session, import_session
from tests.core.sessions.hostile_bundles import (
    Alteration,
    alterations,
    altered_lines,
    connecting,
    derive_everything,
    packed,
    use,
    versions_of,
    work,
    worth,
)


@dataclass(frozen=True)
class Stage:
    """A store with a session of ours, and the bundle of a fork that knows the same files."""

    folder: Path
    project: Path
    ours: Path
    bundle: bytes = field(repr=False)
    worth: Any = field(repr=False)


async def _staged(folder: Path, *, ours: str | None = None) -> Stage:
    project = folder / "project"
    project.mkdir()
    (project / "b.txt").write_text("never read\n", encoding="utf-8")
    file = folder / "ours.db"
    async with connecting(f"sqlite:///{folder}/theirs.db", project) as client:
        await work(client, "elder", project, texts=["one\n", "two\n", "three\n"])
        guest = await client.fork("elder", turn=2, new_session_id="guest")
        await guest.render("and now?")
        await guest.read("/w/b.txt")
        await guest.end_turn("Done.")
        data, _ = await export_session(client.store, "guest")
    url = ours or f"sqlite:///{file}"
    async with connecting(url, project) as client:
        await work(client, "mine", project, texts=["one\n", "four\n", "two\n"])
        return Stage(folder, project, file, data, await worth(client, "mine"))


@pytest.fixture(scope="module")
def xtdb_stage(tmp_path_factory: pytest.TempPathFactory, xtdb_url: str) -> Stage:
    return asyncio.run(_staged(tmp_path_factory.mktemp("xtdb"), ours=xtdb_url))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return asyncio.run(_staged(tmp_path_factory.mktemp("stage")))


async def _check(stage: Stage, data: bytes) -> bool:
    """Import into a copy of our store; return whether the bundle was accepted."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "ours.db"
        shutil.copy(stage.ours, copy)
        return await _check_in(f"sqlite:///{copy}", stage, data)


async def _check_in(url: str, stage: Stage, data: bytes) -> bool:
    async with connecting(url, stage.project) as client:
        try:
            imported = await import_session(client.store, data, check_record=check_record)
        except CtxmgrError:
            imported = None
        assert await worth(client, "mine", as_in=stage.worth) == stage.worth
        if imported is not None:
            await derive_everything(client.store)
            await use(client, imported)
            assert await worth(client, "mine", as_in=stage.worth) == stage.worth
        return imported is not None


async def test_the_bundle_itself_is_accepted(stage: Stage) -> None:
    """What the forgeries below are made from; repacking alone changes nothing."""
    assert await _check(stage, stage.bundle)
    assert await _check(stage, packed(*versions_of(stage.bundle)))


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(alters=st.lists(alterations(), min_size=1, max_size=3))
async def test_no_altered_bundle_changes_another_session(
    stage: Stage, alters: list[Alteration]
) -> None:
    """003-R010, 003-R111: whoever makes every hash fit still cannot reach what is not theirs."""
    session_id, versions = versions_of(stage.bundle)
    for alter in alters:
        versions = alter.apply(versions)
    try:
        data = packed(session_id, versions)
    except (CtxmgrError, KeyError, TypeError, ValueError, AssertionError):
        return  # no bundle can be written of it

    await _check(stage, data)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(alter=altered_lines())
async def test_no_altered_line_changes_another_session(stage: Stage, alter: Alteration) -> None:
    """Truncated, flipped, reordered and repeated: refused, or as it was."""
    await _check(stage, alter.apply(stage.bundle))


@pytest.mark.xtdb
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(alter=alterations())
async def test_no_altered_bundle_changes_another_session_on_xtdb(
    xtdb_stage: Stage, xtdb_url: str, alter: Alteration
) -> None:
    """The same on the other store, which keeps what earlier bundles brought."""
    session_id, versions = versions_of(xtdb_stage.bundle)
    try:
        data = packed(session_id, alter.apply(versions))
    except (CtxmgrError, KeyError, TypeError, ValueError, AssertionError):
        return

    await _check_in(xtdb_url, xtdb_stage, data)
