"""A project's memory as one file: written, verified, and read into another project."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ctxmgr import KINDS, Store, open_store
from ctxmgr.core.store.canonical import canonical
from ctxmgr.errors import BundleDamaged, CtxmgrError, Incorrect, NewerFormat
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records import memory_file
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.memory.records.contradiction import Resolution
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind, Origin, Visibility
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS

START = 1_700_000_000_000
LATER = START + 10_000_000
SHARED = Visibility.PROJECT_SHARED
EVE = Principal(user_id="eve", project_id="fork")
TABS = Fact(key="indentation", value="tabs", scope="python", confidence=0.5)
SPACES = Fact(key="indentation", value="4 spaces", scope="python")
_VIM = Fact(key="editor", value="vim")
BODIES: tuple[Body, ...] = (
    Episode(title="Login fixed", full_narrative="A löng story.\u2028\x01", problem="It failed."),
    Pattern(name="p", trigger="t", template={"route": "r", "response": "s"}, hint="h"),
    Workflow(name="w", trigger="t", steps=("a", "b"), hint="a, b", details={"a": "first"}),
)


@pytest.fixture
async def there() -> AsyncIterator[Store]:
    """The store of somebody else."""
    kinds = {**KINDS, **MEMORY_KINDS}
    async with await open_store("sqlite://:memory:", kinds=kinds) as store:
        yield store


@pytest.fixture
def eves(there: Store) -> LivingMemory:
    return LivingMemory(there, EVE, now=count(LATER, 1_000).__next__)


async def filled(memory: LivingMemory) -> dict[str, Memory]:
    """Fill a memory with everything that a file can hold; return it by what it is."""
    origin = Origin(session_id="s1", turn=3, object_id="src/a.py", object_hash="h")
    for body in BODIES:
        await memory.add(body, visibility=SHARED, author=Author.RULE, origin=origin, tags=["a.py"])
    tabs = await memory.add(TABS, visibility=SHARED, valid_from=1_600_000_000_000)
    spaces = await memory.add(SPACES, visibility=SHARED, kind=MemoryKind.DECISION)
    (pair,) = spaces.contradictions
    await memory.resolve(pair.id, Resolution.B_WINS, note="asked")
    private = await memory.add(_VIM)
    system = await memory.add(Fact(key="licence", value="MIT"), visibility=Visibility.SYSTEM)
    await memory.on_memory_cited(spaces.memory.id)
    await memory.consolidate()
    return {
        "tabs": await memory.get(tabs.memory.id),
        "spaces": await memory.get(spaces.memory.id),
        "private": private.memory,
        "system": system.memory,
    }


async def test_a_projects_memory_is_the_same_in_another_store(
    memory: LivingMemory, eves: LivingMemory
) -> None:
    """001-R098, 001-R102: valid times, authors, use, links and contradictions are kept."""
    known = await filled(memory)
    links = await memory.repository.links()
    exported = await memory.export_file(private=True)

    result = await eves.import_file(exported.data)

    assert (result.project_id, result.imported, result.known) == ("shop", 7, 0)
    assert links
    assert await eves.repository.links() == links
    assert await eves.contradictions(only_open=False) == await memory.contradictions(
        only_open=False
    )
    usage = await memory.repository.usage(each.id for each in known.values())
    assert await eves.repository.usage(usage) == usage
    mine = {each.id: each for each in await memory.memories(forgotten=True)}
    for each in await eves.memories(forgotten=True):
        before = mine.pop(each.id)
        private = before.visibility is Visibility.USER_PRIVATE
        assert each == replace(
            before,
            user_id="eve",
            project_id="fork",
            visibility=before.visibility if private else SHARED,
            imported_from=exported.root,
        )
    assert mine == {}
    assert "4 spaces" in (await eves.assemble_context(2_000)).context


async def test_importing_again_changes_nothing(memory: LivingMemory, eves: LivingMemory) -> None:
    """Neither does a dry run, and what was corrected since then stays corrected."""
    known = await filled(memory)
    data = (await memory.export_file()).data
    would = await eves.import_file(data, dry_run=True)
    assert await eves.memories(forgotten=True) == []
    first = await eves.import_file(data)
    edited = await eves.edit(known["spaces"].id, replace(SPACES, value="2 spaces"))
    before = await eves.memories(forgotten=True)

    again = await eves.import_file(data)

    assert would == replace(first, contradictions_found=0)
    assert (again.imported, again.known) == (0, first.imported)
    assert (again.contradictions, again.links) == (0, 0)
    assert await eves.memories(forgotten=True) == before
    assert edited.memory in before


async def test_an_import_that_was_interrupted_is_finished_by_the_next(
    memory: LivingMemory, eves: LivingMemory, there: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memories that were stored before it stopped still get their links."""
    await filled(memory)
    data = (await memory.export_file()).data
    monkeypatch.setattr("ctxmgr.memory.transfer.BATCH_MEMORIES", 2)
    commits = count()
    commit = there.commit

    async def failing(*args: Any, **named: Any) -> Any:
        if next(commits) == 2:
            raise ConnectionError
        return await commit(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(there, "commit", failing)
        with pytest.raises(ConnectionError):
            await eves.import_file(data)
    assert len(await eves.memories(forgotten=True)) == 4

    result = await eves.import_file(data)

    assert (result.imported, result.known) == (2, 4)
    exported = [each for each in await memory.memories(forgotten=True) if each.body != _VIM]
    assert len(await eves.memories(forgotten=True)) == len(exported)
    ids = {each.id for each in exported}
    links = [
        each for each in await memory.repository.links() if {each.memory_a, each.memory_b} <= ids
    ]
    assert await eves.repository.links() == links


async def test_an_export_has_only_what_its_principal_may_see(
    memory: LivingMemory, store: Store
) -> None:
    """001-R102: private ones of the project if asked, never those of others."""
    known = await filled(memory)
    bobs = LivingMemory(store, Principal(user_id="bob", project_id="shop"))
    await bobs.add(Fact(key="shell", value="fish"))
    elsewhere = LivingMemory(store, Principal(user_id="ada", project_id="site"))
    await elsewhere.add(Fact(key="colour", value="red"))

    shared, private = await memory.export_file(), await memory.export_file(private=True)

    assert (shared.memories, private.memories) == (6, 7)
    assert b'"vim"' not in shared.data
    assert b'"vim"' in private.data
    assert known["private"].id.encode() not in shared.data
    for data in (shared.data, private.data, (await bobs.export_file()).data):
        assert b'"red"' not in data
        assert b'"fish"' not in data
    assert (await bobs.export_file()).data == shared.data


async def test_an_import_never_changes_what_is_known_here(
    memory: LivingMemory, eves: LivingMemory, there: Store
) -> None:
    """An id that exists is skipped, also that of another user; contradictions are reported."""
    known = await filled(memory)
    data = (await memory.export_file()).data
    bobs = LivingMemory(there, Principal(user_id="bob", project_id="other"), now=lambda: LATER)
    theirs = replace(
        known["tabs"], user_id="bob", project_id="other", visibility=Visibility.USER_PRIVATE
    )
    await bobs.repository.add(theirs)
    own = (await eves.add(Fact(key="indentation", value="2 spaces", scope="python"))).memory

    result = await eves.import_file(data)

    assert (result.imported, result.known, result.contradictions) == (5, 1, 0)
    assert result.contradictions_found == 1
    assert await bobs.memories(forgotten=True) == [theirs]
    assert await eves.get(own.id) == own
    (pair,) = await eves.contradictions()
    assert {pair.memory_a, pair.memory_b} == {own.id, known["spaces"].id}
    assert (await eves.get(known["spaces"].id)).supersedes == ()


async def test_a_file_says_nothing_about_two_memories_that_are_known_here(
    memory: LivingMemory,
) -> None:
    """A forged file must not settle a contradiction here, or link what it did not bring."""
    one = (await memory.add(TABS, visibility=SHARED)).memory
    other = (await memory.add(Fact(key="shell", value="fish"), visibility=SHARED)).memory
    link: dict[str, Any] = {
        "xt/id": "",
        "type": "memory_link",
        "kind": "part_of",
        "strength": 1,
        "memory_a": one.id,
        "memory_b": other.id,
        "reason": "forged",
        "detected_at": START,
    }
    digest = hashlib.sha256(f"part_of\n{one.id}\n{other.id}".encode()).hexdigest()[:32]
    link["xt/id"] = f"memory_link:{digest}"
    data = (await memory.export_file()).data

    def with_link(lines: list[dict[str, Any]]) -> None:
        lines.append(link)
        lines[0]["counts"]["memory_link"] = 1

    result = await memory.import_file(forged(data, with_link))

    assert (result.imported, result.known, result.links) == (0, 2, 0)
    assert await memory.repository.links() == []


def forged(data: bytes, change: Callable[[list[dict[str, Any]]], None]) -> bytes:
    """Return a file with other lines and the hash that belongs to them."""
    lines = [json.loads(line) for line in data.splitlines()]
    change(lines)
    root = lines[0].pop("root")
    rest = b"".join(canonical(line) + b"\n" for line in lines)
    root = hashlib.sha256(rest).hexdigest()
    return canonical({**lines[0], "root": root}) + b"\n" + rest.partition(b"\n")[2]


def _set(number: int, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda lines: lines[number].update(fields)


async def test_a_file_with_a_right_hash_and_wrong_content_is_refused(
    memory: LivingMemory, eves: LivingMemory
) -> None:
    """Anybody who writes a file can hash it: every field and reference is checked."""
    await memory.add(SPACES, visibility=SHARED)
    data = (await memory.export_file()).data
    missing = "00000000-0000-4000-8000-000000000000"
    changes: list[Callable[[list[dict[str, Any]]], None]] = [
        _set(1, valid_from="soon"),
        _set(1, created_at=LATER * 2),
        _set(1, created_at=-1),
        _set(1, valid_to=START - 1),
        _set(1, content_summary="x" * (memory_file.LEVEL_CHARS_MAX + 1)),
        _set(1, content_index=7),
        _set(1, ended_because="x" * 501),
        _set(1, visibility="everybody"),
        _set(1, author="ghost"),
        _set(1, more="fields"),
        _set(1, type="file"),
        _set(1, **{"xt/id": "memory:../../x"}),
        _set(1, body={}),
        _set(1, origin=[]),
        _set(1, supersedes=[missing]),
        _set(1, superseded_by=missing),
        _set(1, imported_from="me"),
        _set(0, project=""),
        _set(0, counts={}),
        _set(0, more=1),
        lambda lines: lines.append(lines[1]),
        lambda lines: lines.append(
            {
                "xt/id": f"memory_usage:{missing}",
                "type": "memory_usage",
                "retrieval_count": 1,
                "citation_count": 0,
                "ignore_count": 0,
                "last_accessed": None,
            }
        ),
    ]

    assert forged(data, lambda _: None) == data
    for number, change in enumerate(changes):
        with pytest.raises(BundleDamaged):
            await eves.import_file(forged(data, change))
        assert await eves.memories(forgotten=True) == [], number


async def test_a_file_that_was_altered_or_cut_is_refused(
    memory: LivingMemory, eves: LivingMemory
) -> None:
    """One altered byte anywhere, a missing line, another program's file: nothing is stored."""
    await memory.add(SPACES, visibility=SHARED)
    data = (await memory.export_file()).data
    for position in range(0, len(data), 29):
        altered = bytearray(data)
        altered[position] ^= 1
        with pytest.raises(CtxmgrError):
            await eves.import_file(bytes(altered))
    for cut in (b"", data[:-1], data.splitlines(keepends=True)[0], data + b"\n", data + b"{}\n"):
        with pytest.raises((BundleDamaged, Incorrect)):
            await eves.import_file(cut)
    for other in (b"\x1f\x8b", b"[]\n", b'{"ctxmgr_bundle":3}\n', b"[" * 100_000):
        with pytest.raises(Incorrect, match="not a memory file"):
            await eves.import_file(other)
    with pytest.raises(NewerFormat):
        await eves.import_file(forged(data, _set(0, ctxmgr_memory=2)))
    assert await eves.memories(forgotten=True) == []


async def test_a_file_that_is_too_large_is_refused(
    memory: LivingMemory, eves: LivingMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes, lines and the bytes of a line are bounded, each with its limit in the message."""
    await memory.add(SPACES, visibility=SHARED)
    data = (await memory.export_file()).data
    for name, limit in (("FILE_BYTES_MAX", 100), ("LINES_MAX", 1), ("LINE_BYTES_MAX", 300)):
        with monkeypatch.context() as patched:
            patched.setattr(memory_file, name, limit)
            with pytest.raises(Incorrect, match=str(limit)):
                await eves.import_file(data)
    assert (await eves.import_file(data)).imported == 1


async def test_levels_of_a_file_never_grow(memory: LivingMemory, eves: LivingMemory) -> None:
    """001-R024: a summary that is longer than the text would spend tokens for nothing."""
    added = (await memory.add(SPACES, visibility=SHARED)).memory
    data = (await memory.export_file()).data

    await eves.import_file(forged(data, _set(1, content_compressed="words " * 500)))

    levels = (await eves.get(added.id)).levels
    assert levels.compressed == levels.summary == added.levels.summary
