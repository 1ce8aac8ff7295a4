"""The file tools as models use them: pages of large files, other encodings, empty results."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import Incorrect, LiveSession, toolcall_part
from ctxmgr.core.client.tools import PAGE_BYTES_MAX, PAGE_LINES
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.sandboxes.host import Host
from tests.core.client.test_tools import call, pool_lines


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def session(tmp_path: Path, work: Path) -> AsyncIterator[LiveSession]:
    host = await Host.start()
    try:
        url = f"sqlite:///{tmp_path}/s.db"
        async with ctxmgr.connect(url, sandbox=host, directory=str(work)) as client:
            yield await client.start("s1", system_prompt="")
    finally:
        await host.close()


def large(work: Path, *, encoding: str = "utf-8") -> Path:
    """A log of some three megabytes; line n says its number."""
    path = work / "large.log"
    path.write_text(
        "".join(f"line {n} äöü {'x' * 40}\n" for n in range(1, 50_001)), encoding=encoding
    )
    assert path.stat().st_size > FILE_BYTES_MAX
    return path


async def test_a_large_file_is_read_page_by_page(session: LiveSession, work: Path) -> None:
    """Beyond what is stored, offset and limit still work, and a note says what follows."""
    path = large(work)

    ok, first = await call(session, "read", path="large.log")
    _, middle = await call(session, "read", 2, path="large.log", offset=20_000, limit=2)
    _, last = await call(session, "read", 3, path="large.log", offset=49_999)

    lines = first.splitlines()
    assert ok
    assert lines[0].startswith("line 1 äöü")
    assert len(lines) == PAGE_LINES + 1
    assert f"; more follow: read on with offset={PAGE_LINES + 1}; the file is large: " in lines[-1]
    assert f"{path.stat().st_size:,} bytes" in lines[-1].replace("_", ",")
    assert [line.split()[1] for line in middle.splitlines()[:2]] == ["20000", "20001"]
    assert "[lines 20,000-20,001," in middle
    assert [line.split()[1] for line in last.splitlines()[:2]] == ["49999", "50000"]
    assert "; the last;" in last
    assert any("large.log file_type=log [unread]" in line for line in pool_lines(session))


async def test_a_page_beyond_the_end_is_an_error(session: LiveSession, work: Path) -> None:
    """An empty page would look like an empty file."""
    large(work)
    (work / "small").write_text("one\ntwo\n", encoding="utf-8")

    assert await call(session, "read", path="large.log", offset=60_000) == (
        False,
        f"{work}/large.log has no line 60,000",
    )
    assert await call(session, "read", 2, path="small", offset=3) == (
        False,
        f"{work}/small has 2 lines; offset 3 is beyond",
    )


async def test_a_long_line_is_cut_and_its_rest_can_be_read(
    session: LiveSession, work: Path
) -> None:
    """A minified file is one line of megabytes; the note has the command for the next part."""
    (work / "min.js").write_text("é" * FILE_BYTES_MAX + "END\nlast\n", encoding="utf-8")

    ok, text = await call(session, "read", path="min.js")
    shown, note = text.splitlines()
    _, following = await call(session, "read", 2, path="min.js", offset=2)
    command = note.partition("`")[2].partition("`")[0]
    _, rest = await call(session, "bash", command=command)

    assert ok
    assert shown == "é" * (PAGE_BYTES_MAX // 2)
    assert f"it is cut after {PAGE_BYTES_MAX:,} bytes" in note
    assert note.endswith("the next line is offset=2]")
    assert following.startswith("last\n[line 2,")
    assert rest.startswith("éé")


async def test_a_page_ends_with_a_whole_line(session: LiveSession, work: Path) -> None:
    """A page that is full before its last line leaves that line to the next page."""
    line = "z" * 50_000 + "\n"
    (work / "wide.txt").write_text(line * 60, encoding="utf-8")

    _, text = await call(session, "read", path="wide.txt")

    assert text.startswith(line * 2 + "[lines 1-2, 100,002 bytes; more follow")
    assert "offset=3;" in text


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16"])
async def test_other_encodings_are_decoded_with_a_note(
    session: LiveSession, work: Path, encoding: str
) -> None:
    """The output is text; the object has the hash of the bytes and no text (003-R049, 003-A13)."""
    (work / "old.txt").write_bytes("Größe\nzwei\n".encode(encoding))

    whole = await call(session, "read", path="old.txt")
    part = await call(session, "read", 2, path="old.txt", offset=2, limit=1)

    note = f"[the file is not UTF-8; decoded as {encoding}]\n"
    assert whole == (True, f"Größe\nzwei\n{note}")
    assert part == (True, f"zwei\n{note}")
    assert any("old.txt file_type=txt [binary]" in line for line in pool_lines(session))


async def test_a_page_of_a_large_latin_1_file_is_decoded(session: LiveSession, work: Path) -> None:
    large(work, encoding="iso-8859-1")

    ok, text = await call(session, "read", path="large.log", offset=5, limit=1)

    assert ok
    assert text.startswith("line 5 äöü ")
    assert text.endswith("[the file is not UTF-8; decoded as iso-8859-1]\n")


async def test_an_edit_keeps_the_encoding_of_a_file(session: LiveSession, work: Path) -> None:
    """A Latin-1 file that is half UTF-8 afterwards is broken for everything that reads it."""
    (work / "old.txt").write_bytes("Größe\n".encode("iso-8859-1"))

    edited = await call(session, "edit", path="old.txt", old="Größe", new="Höhe")
    refused = await call(session, "edit", 2, path="old.txt", old="Höhe", new="5 €")

    assert edited[0]
    assert (work / "old.txt").read_bytes() == "Höhe\n".encode("iso-8859-1")
    assert not refused[0]
    assert "is iso-8859-1, which lacks a character" in refused[1]


async def test_a_binary_file_and_a_folder_say_what_they_are(
    session: LiveSession, work: Path
) -> None:
    (work / "data.bin").write_bytes(b"\x00\x01\xff")
    (work / "folder").mkdir()

    binary = await call(session, "read", path="data.bin")
    folder = await call(session, "read", 2, path="folder")

    assert binary[1].startswith(f"{work}/data.bin is not text in a known encoding")
    assert folder == (False, f"{work}/folder is a directory; ls lists it")
    with pytest.raises(Incorrect, match="folder is a directory; list it"):
        await session.read(f"{work}/folder")


async def test_an_empty_result_says_so(session: LiveSession, work: Path) -> None:
    """An empty answer leaves a model guessing whether the tool worked."""
    (work / "a.py").write_text("one\n", encoding="utf-8")
    (work / "empty").mkdir()

    assert await call(session, "grep", pattern="two|three") == (True, "no matches\n")
    assert await call(session, "grep", 2, pattern="one|two") == (True, "./a.py:1:one\n")
    assert await call(session, "find", name="*.rs") == (True, "no files\n")
    assert await call(session, "ls", path="empty") == (True, "no files\n")


async def test_a_path_outside_the_mounts_names_the_mounts(tmp_path: Path, work: Path) -> None:
    """There may be no sandbox: what is missing is a mount."""
    mounts = [{"agentPrefix": "/src", "canonicalPrefix": str(work)}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, tracking=False) as client:
        session = await client.start("s1", system_prompt="")

        with pytest.raises(ctxmgr.Denied, match=r"^/etc/passwd is outside the mounts \(/src\)$"):
            await session.read("/etc/passwd")


async def test_hidden_lines_of_an_output_are_read_by_their_numbers(session: LiveSession) -> None:
    """003-R145: the numbers of a hole are usable for outputs as for files."""
    log = "".join(f"step {n} of the build wrote object_{n}\n" for n in range(1, 401))
    part = "".join(f"def name_{n}(): ...\n" for n in range(200, 300))
    await session.render("build", policy="economy")
    calls = {
        "c1": ("bash", {"command": "make"}, log),
        "c2": ("read", {"path": "a.py", "offset": 200, "limit": 100}, part),
    }
    parts = []
    for name, (tool, args, output) in calls.items():
        await session.record(name, tool=tool, args=args, output=output, discover=False)
        parts.append(toolcall_part(name, call_id=name, tool=tool, args=args))
    await session.end_turn(parts)
    prompt = str(await session.render("go on", policy="economy"))
    first, last = map(int, re.findall(r"⋯ lines (\d+)–(\d+)", prompt)[0])

    _, hidden = await call(session, "read", path="#1", offset=first, limit=last - first + 1)
    _, row = await call(session, "read", 2, path="#2", offset=240, limit=1)
    beyond = await call(session, "read", 3, path="#1", offset=500)
    unknown = await call(session, "read", 4, path="#99")

    assert hidden == "".join(log.splitlines(keepends=True)[first - 1 : last])
    assert row == "def name_240(): ...\n"
    assert beyond == (False, "#1 ends with line 400; offset 500 is beyond")
    assert not unknown[0]
    assert "no handle '#99'" in unknown[1]
