"""The audit log as a whole: appending, restarting, rotating, querying, exporting."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from ctxmgr.audit.appender import Appender
from ctxmgr.audit.folder import AuditFolder
from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.records import AuditEntry
from ctxmgr.audit.writer import AuditLogWriter
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import ChainBroken, Denied, Incorrect, NotFound, Unavailable
from tests.audit.logs import CREDENTIAL, created, filled, opened, record
from tests.components import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def lines(root: Path) -> list[dict[str, object]]:
    return [
        orjson.loads(line)
        for path in sorted(root.glob("segment-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


async def test_append_returns_the_id_and_moves_the_chain(root: Path) -> None:
    """000-R102, 000-R106, 000-R110, 000-R217: the writer's previous hash is the last record's."""
    await created(root)

    async with AuditLogWriter(root, "be-1") as writer:
        first = await writer.record(**record(7))
        after_first = writer.prev_record_hash
        second = await writer.record(**record(10))

        assert (first, second) == ("audit-s1-7-0", "audit-s1-10-0")
        assert [line["record_hash"] for line in lines(root)] == [
            after_first,
            writer.prev_record_hash,
        ]
        assert lines(root)[1]["prev_record_hash"] == after_first


async def test_the_chain_goes_on_after_a_restart(root: Path) -> None:
    """000-A04, PG-15: a chain that begins again with every process proves nothing."""
    await filled(root, 3)
    await filled(root, 3)

    async with await opened(root) as log:
        verification = await log.verify()

    assert [line["number"] for line in lines(root)] == [1, 2, 3, 4, 5, 6]
    assert [line["prev_record_hash"] for line in lines(root)].count("genesis") == 1
    assert verification.faults == ()


async def test_records_of_one_tick_have_a_sequence(root: Path) -> None:
    """000-A05: two events in one tick must not collide, also not after a restart."""
    await created(root)
    ids = []
    for _ in range(2):
        async with await opened(root) as log:
            ids += [await log.writer.record(**record(0, tick=5)) for _ in range(2)]
    async with await opened(root) as log:
        ids.append(await log.writer.record(**record(0, tick=6)))
        ids.append(await log.writer.record(**record(0, tick=5)))

    assert ids[:5] == [*(f"audit-s0-5-{n}" for n in range(4)), "audit-s0-6-0"]
    assert ids[5].startswith("audit-s0-5-")
    assert len(set(ids)) == 6


async def test_the_files_belong_to_one_user(root: Path) -> None:
    """000-R100, 000-R210: others cannot read it, and a folder that is open is refused."""
    await filled(root, 1)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}

    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    root.chmod(0o750)
    with pytest.raises(Denied, match="chmod 700"):
        await opened(root)
    root.chmod(0o700)
    (root / "segment-00000001.jsonl").chmod(0o640)
    with pytest.raises(Denied, match="chmod 600"):
        await filled(root, 1)


async def test_a_folder_without_a_log_is_not_written_to(root: Path) -> None:
    """A mistyped path must not become a second log."""
    root.mkdir(mode=0o700)

    with pytest.raises(NotFound, match="ctxmgr audit init"):
        await opened(root)
    (root / "other").touch()
    with pytest.raises(Incorrect, match="not empty"):
        await AuditLog.create(root, log_id="x")


async def test_segments_are_rotated_and_the_chain_goes_through(root: Path) -> None:
    """000-R103, PG-15: verification follows the chain from file to file and over restarts."""
    for _ in range(3):
        await filled(root, 20, segment_bytes=4_000)

    async with await opened(root, segment_bytes=4_000) as log:
        verification = await log.verify()
        again = await log.writer.record(**record(0, tick=18))

    assert len(list(root.glob("segment-*.jsonl"))) > 5
    assert verification.faults == ()
    assert again == "audit-s0-18-3", "the sequence is known from the start of the segment"


async def test_an_event_is_recorded_once(root: Path) -> None:
    """000-A05: two listeners of one store record its events once, also after a rotation."""
    await created(root)
    entries = [
        AuditEntry(
            session_id="s1",
            tick=number,
            event_type=EventType.SYSTEM,
            raw_content="x" * 500,
            timestamp=number,
            source=EventOrigin("store", number, 0, 0),
        )
        for number in range(20)
    ]

    async with (
        await opened(root, segment_bytes=2_000) as one,
        await opened(root, segment_bytes=2_000) as other,
    ):
        for each in entries:
            await asyncio.gather(one.append(each), other.append(each))
    async with await opened(root) as third:
        assert await third.append(entries[3]) is None
        assert await third.writer.last_event("store") == (EventOrigin("store", 19, 0, 0), 19)

    sources = [line["source"] for line in lines(root) if line["source"]]
    assert sources == [["store", number, 0, 0] for number in range(20)]


async def test_a_torn_tail_is_removed_and_recorded(root: Path) -> None:
    """A crash in the middle of a write leaves half a line, which nobody was told of."""
    await filled(root, 3)
    segment = root / "segment-00000001.jsonl"
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:100])

    async with await opened(root) as log:
        before = await log.verify()
        record_id = await log.writer.record(**record(3))
        after = await log.verify()

    assert (before.torn_bytes, before.faults) == (100, ())
    assert (after.torn_bytes, after.faults) == (0, ())
    assert record_id == "audit-s0-3-0"
    repaired = orjson.loads(str(lines(root)[3]["raw_content"]))
    assert repaired["action"] == "removed an incomplete record"
    assert (root / repaired["kept_in"]).read_bytes() == whole[:100]


async def test_complete_lines_after_the_head_are_kept(root: Path) -> None:
    """A crash between the flush and the move of the head loses no record."""
    await filled(root, 2)
    head = (root / "head.json").read_bytes()
    await filled(root, 2)
    (root / "head.json").write_bytes(head)

    await filled(root, 1)

    assert [line["number"] for line in lines(root)] == [1, 2, 3, 4, 5]


async def test_a_cut_log_is_not_appended_to(root: Path) -> None:
    """000-R099: appending would hide that records are missing."""
    await filled(root, 3)
    segment = root / "segment-00000001.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:2]))

    with pytest.raises(ChainBroken, match="it ends at byte"):
        await filled(root, 1)


async def test_a_removed_segment_is_noticed_by_a_writer_that_has_it_open(root: Path) -> None:
    """A record in a file without a name would be acknowledged and lost."""
    await created(root)
    async with await opened(root) as log:
        await log.writer.record(**record(0))
        (root / "segment-00000001.jsonl").unlink()

        with pytest.raises(ChainBroken, match="removed"):
            await log.writer.record(**record(1))


async def test_a_full_disk_loses_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """000-A05: a failed append must not advance the head."""
    await created(root)
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        real(descriptor, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    async with await opened(root) as log:
        await log.writer.record(**record(0))
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", half)
            with pytest.raises(Unavailable, match="No space left"):
                await log.writer.record(**record(1))
        await log.writer.record(**record(2))
        verification = await log.verify()

    assert [line["tick"] for line in lines(root)] == [0, 2]
    assert (verification.records, verification.faults) == (2, ())


async def test_pending_records_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stalls must not fill the memory: callers wait, and are told."""
    await created(root)
    monkeypatch.setattr("ctxmgr.audit.writer.PENDING_RECORDS_MAX", 4)
    monkeypatch.setattr("ctxmgr.audit.writer.WAIT_SECONDS_MAX", 0.05)

    async with await opened(root) as log:
        with AuditFolder(root).locked():
            waiting = [asyncio.create_task(log.writer.record(**record(n))) for n in range(12)]
            done, _ = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_EXCEPTION)
            refused = [task for task in done if isinstance(task.exception(), Unavailable)]
        kept = await asyncio.gather(*waiting, return_exceptions=True)

    assert refused
    written = [result for result in kept if isinstance(result, str)]
    assert len(written) + sum(isinstance(each, Unavailable) for each in kept) == 12
    assert len(lines(root)) == len(written)


async def test_callers_share_a_flush(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Group commit: a hundred records at once need few flushes."""
    await created(root)
    flushes = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (flushes.append(fd), real(fd)))

    async with await opened(root) as log:
        await asyncio.gather(*(log.writer.record(**record(n)) for n in range(100)))

    assert len(flushes) < 10
    assert len(lines(root)) == 100


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.audit.logs import opened, record
async def main(root, name, count):
    async with await opened(Path(root), segment_bytes=20_000) as log:
        print("ready", flush=True)
        for number in range(count):
            await log.writer.record(**record(number, session_id=name))
            print(number, flush=True)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_processes_append_to_one_chain(root: Path) -> None:
    """PG-15: concurrent writers in several processes neither lose nor fork anything."""
    await created(root)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(root), f"p{n}", "40"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for n in range(3)
    ]

    outputs = [child.communicate(timeout=60)[0] for child in children]

    assert [output.split()[-1] for output in outputs] == [b"39"] * 3
    async with await opened(root) as log:
        verification = await log.verify()
    assert verification.faults == ()
    for n in range(3):
        assert [line["tick"] for line in lines(root) if line["session_id"] == f"p{n}"] == list(
            range(40)
        )


async def test_a_killed_process_loses_nothing_acknowledged(root: Path) -> None:
    """PG-15: kill -9 at any point; what was acknowledged is there, once."""
    await created(root)
    for round_number in range(4):
        command = [sys.executable, "-c", CHILD, str(root), f"k{round_number}", "100000"]
        acknowledged = -1
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            while acknowledged < 15 + 7 * round_number:
                word = child.stdout.readline().strip()
                acknowledged = int(word) if word.isdigit() else acknowledged
            child.kill()
            rest = child.stdout.read().split()
        acknowledged = max([acknowledged, *(int(word) for word in rest if word.isdigit())])

        await filled(root, 1)

        ticks = [line["tick"] for line in lines(root) if line["session_id"] == f"k{round_number}"]
        assert ticks == list(range(len(ticks)))
        assert len(ticks) > acknowledged
    async with await opened(root) as log:
        assert (await log.verify()).faults == ()


async def test_a_query_needs_a_reviewer(root: Path) -> None:
    """Without a valid credential nothing is shown, and that is recorded.

    Rows: 000-A02, 000-R104, 000-R217.
    """
    await filled(root, 3)

    async with await opened(root) as log:
        with pytest.raises(Denied):
            await log.query("guess")
        with pytest.raises(Denied):
            await log.export("guess", root.parent / "out", progress=lambda _done, _all: None)

    actions = [orjson.loads(str(line["raw_content"]))["action"] for line in lines(root)[3:]]
    assert actions == ["query refused", "export refused"]
    assert not (root.parent / "out").exists()


async def test_a_log_without_reviewers_answers_nobody(root: Path) -> None:
    """000-R104: the default is to refuse."""
    await filled(root, 1)

    async with await AuditLog.open(root, be_id="be") as log:
        with pytest.raises(Denied, match="without reviewers"):
            await log.query(CREDENTIAL)


async def test_queries_filter_and_are_recorded(root: Path) -> None:
    """000-R101, 000-R104: a reviewer finds records, hidden lenses included, and leaves a trace."""
    await filled(root, 12)

    async with await opened(root) as log:
        found = await log.query(CREDENTIAL, session_id="s1", tick_range=(4, 8))
        by_text = await log.query(CREDENTIAL, text_search="token 11 ")
        by_type = await log.query(CREDENTIAL, event_types=["steering"])
        paged = await log.query(CREDENTIAL, after=2, limit=2)
        by_time = await log.query(CREDENTIAL, time_range=(0, 1))

    assert [each.id for each in found] == ["audit-s1-4-0", "audit-s1-7-0"]
    assert found[0].lens_activations["hidden"] == 0.5
    assert [each.tick for each in by_text] == [11]
    assert (by_type, by_time) == ((), ())
    assert [each.number for each in paged] == [3, 4]
    noted = orjson.loads(str(lines(root)[12]["raw_content"]))
    assert (noted["action"], noted["reviewer"], noted["records"]) == ("query", "alice", [5, 8])
    assert noted["asked"]["session_id"] == "s1"


async def test_a_query_over_an_altered_record_is_an_error(root: Path) -> None:
    """PG-18: an altered record is neither returned nor left out."""
    await filled(root, 3)
    segment = root / "segment-00000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"token 1 ", b"token 9 "))

    async with await opened(root) as log:
        with pytest.raises(ChainBroken, match="ctxmgr audit verify"):
            await log.query(CREDENTIAL, session_id="s0")


async def test_a_fresh_appender_reads_one_segment_at_most(root: Path) -> None:
    """Opening a log must not take longer the older it is."""
    await filled(root, 60, segment_bytes=4_000)
    for path in sorted(root.glob("segment-*.jsonl"))[:-1]:
        path.write_bytes(b"")

    appender = Appender(AuditFolder(root), be_id="be")

    assert appender.append([]) == []
    appender.close()
