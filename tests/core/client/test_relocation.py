"""A session is resumed where its files lie elsewhere, and a model never sees a host's path."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctxmgr
from ctxmgr import Incorrect, Unavailable
from ctxmgr.core.client.known_paths import OUT_OF_REACH


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


def project(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print('one')\n", encoding="utf-8")
    (folder / "notes.md").write_text("# notes\n", encoding="utf-8")
    (folder / "listed.txt").write_text("never read\n", encoding="utf-8")
    return folder


def mount(folder: Path, *, at: str = "/w", filesystem: str = "disk") -> dict[str, str]:
    return {"agentPrefix": at, "canonicalPrefix": str(folder), "filesystemId": filesystem}


def connecting(url: str, *mounts: dict[str, str]) -> Any:
    return ctxmgr.connect(url, mounts=mounts, filesystem_id="box", tracking=False)


async def leave(url: str, *mounts: dict[str, str], policy: str | None = None) -> dict[str, str]:
    """Read and pin, list and leave; return the ids of the files."""
    async with connecting(url, *mounts) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await session.render("go", policy=policy)
        main = await session.read("/w/src/main.py")
        notes = await session.read("/w/notes.md")
        await session.pin(notes.object_id)
        call = await session.record("c1", tool="bash", args={"command": "ls"}, output="listed.txt")
        await session.end_turn("Done.")
        await session.render("and now?", policy=policy)
        await session.end_turn("Done.")
        await client.pause("s1")
        assert call.file_refs is not None
        return {"main": main.object_id, "notes": notes.object_id, "listed": call.file_refs[0]}


@pytest.mark.parametrize("eager", [True, False])
async def test_what_is_mounted_in_the_place_of_a_folder_is_shown_instead(
    url: str,
    tmp_path: Path,
    eager: bool,  # noqa: FBT001 (parametrized)
) -> None:
    """The project was cloned on another machine: the agent goes on with the files that are there.

    003-R044, 003-A33: another source is another object, so ids change and histories do not mix.
    """
    old = await leave(url, mount(project(tmp_path / "a")))
    new = project(tmp_path / "elsewhere" / "b")
    (new / "src" / "main.py").write_text("print('two')\n", encoding="utf-8")

    async with connecting(url, mount(new, filesystem="laptop")) as client:
        session = await client.resume("s1", eager=eager)
        await client.reconciliation("s1").wait()
        relocated = client.reconciliation("s1").relocated
        prompt = await session.render("go on")
        sets = session.sets
        before = await client.store.history(old["main"])
        await session.end_turn("Done.")

    assert set(relocated) == set(old.values())
    assert "print('two')" in prompt
    assert "print('one')" not in prompt
    assert prompt.count("path=/w/src/main.py") == 1
    assert f"id={relocated[old['listed']]} type=file path=/w/listed.txt file_type=txt [unread]" in (
        prompt
    )
    assert set(sets.session_index) == {"c1", *old.values(), *relocated.values()}
    assert set(sets.metadata_pool) == {"c1", *relocated.values()}
    assert relocated[old["notes"]] in sets.pinned_set
    assert relocated[old["main"]] in sets.active_set
    assert len(before.entries) == 1
    assert client.reconciliation("s1").done


async def test_a_folder_that_was_moved_is_named_by_the_harness(url: str, tmp_path: Path) -> None:
    """Without mounts nothing says where a folder has gone; its files are not taken for deleted."""
    folder = project(tmp_path / "a")
    async with ctxmgr.connect(url, tracking=False) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await session.render("go")
        main = await session.read(f"{folder}/src/main.py")
        await session.end_turn("Done.")
        await client.pause("s1")
    moved = folder.rename(tmp_path / "b")

    async with ctxmgr.connect(url, tracking=False) as client:
        session = await client.resume("s1", relocate={str(folder): str(moved)})
        prompt = await session.render("go on")
        history = await client.store.history(main.object_id)

    assert f"path={moved}/src/main.py" in prompt
    assert str(folder) not in prompt
    assert len(history.entries) == 1


async def test_a_new_place_must_be_on_a_mount(url: str, tmp_path: Path) -> None:
    """What no mount shows to the agent is not shown to it through a relocation."""
    await leave(url, mount(project(tmp_path / "a")))

    async with connecting(url, mount(project(tmp_path / "b"), at="/other")) as client:
        with pytest.raises(Incorrect, match="is not on a mount"):
            await client.resume("s1", relocate={str(tmp_path / "a"): "/etc"})


@pytest.mark.parametrize("policy", [None, "economy"])
async def test_a_file_out_of_reach_keeps_the_path_that_the_agent_knows(
    url: str, tmp_path: Path, policy: str | None
) -> None:
    """A host's path tells a model where it runs, and names a file that it cannot open."""
    old = await leave(url, mount(project(tmp_path / "a")), policy=policy)

    for turn in (3, 4):  # resumed again, its own records say no more of the old mount
        async with connecting(url, mount(project(tmp_path / f"b{turn}"), at="/other")) as client:
            session = await client.resume("s1")
            prompt = await session.render("go on", policy=policy)
            await session.end_turn("Done.")
            with pytest.raises(Unavailable, match="out of reach"):
                await session.activate(old["listed"])
            assert session.turn == turn + 1
            assert set(client.reconciliation("s1").orphaned) == {old["main"], old["notes"]}
            await client.pause("s1")
        assert str(tmp_path) not in prompt
        assert "/w/src/main.py" in prompt


FOLDERS = st.lists(st.sampled_from(["a", "b", "a/src"]), min_size=1, max_size=3, unique=True)
PLACES = ["/w", "/data", "/w/deep"]


@settings(max_examples=25, deadline=None)
@given(stays=st.lists(st.tuples(FOLDERS, st.sampled_from(["disk", "laptop"])), max_size=3))
async def test_no_prompt_holds_the_path_of_a_mounted_folder(
    stays: list[tuple[list[str], str]],
) -> None:
    """However often a session moves between mounts, its prompts name only the agent's paths."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        project(folder / "a")
        project(folder / "b")
        url = f"sqlite:///{folder}/s.db"
        await leave(url, mount(folder / "a"))
        for names, filesystem in stays:
            mounts = [
                mount(folder / name, at=place, filesystem=filesystem)
                for name, place in zip(names, PLACES, strict=False)
            ]
            async with connecting(url, *mounts) as client:
                session = await client.resume("s1")
                for policy in (None, "economy"):
                    prompt = await session.render("go on", policy=policy)
                    assert str(folder) not in prompt
                await session.record(
                    f"c{session.turn}", tool="bash", args={"command": "ls"}, output="notes.md"
                )
                await session.end_turn("Done.")
                text = (await client.prompt_as_of("s1", turn=session.turn - 1)).text()
                assert str(folder) not in text
                assert OUT_OF_REACH not in text
                assert session.sets.metadata_pool <= session.sets.session_index
                assert session.sets.active_set <= session.sets.metadata_pool
                assert session.sets.pinned_set <= session.sets.metadata_pool
                await client.pause("s1")
