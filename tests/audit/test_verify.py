"""What ``verify`` finds in a log that was tampered with, and where."""

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from ctxmgr.audit.folder import AuditFolder, Head
from ctxmgr.audit.keys import load_key
from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.records import START, AuditEntry, Link, PreparedEntry
from ctxmgr.audit.signing import make_checkpoint
from ctxmgr.audit.verify import AuditFault, AuditVerification, verify
from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import ChainBroken, Denied, Incorrect, NotFound
from tests.audit.logs import CREDENTIAL, created, filled, opened, record
from tests.audit.test_records import field_at
from tests.components import ROOT

SCRIPT = ROOT / "docs" / "verify_audit_export.py"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three segments: two checkpoints, and some records after the last one."""
    root = tmp_path_factory.mktemp("original") / "audit"

    async def fill() -> None:
        await created(root)
        for _ in range(2):
            async with await opened(root, segment_bytes=12_000) as log:
                for number in range(16):
                    await log.writer.record(**record(number))
                await log.checkpoint()
        await filled(root, 6, segment_bytes=12_000)

    asyncio.run(fill())
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "audit"))


def records(root: Path) -> list[tuple[Path, int, bytes]]:
    """Every record: its file, where it begins, and its line."""
    found = []
    for path in sorted(root.glob("segment-*.jsonl")):
        offset = 0
        for line in path.read_bytes().splitlines(keepends=True):
            found.append((path, offset, line))
            offset += len(line)
    return found


def first_fault(root: Path, **options: object) -> AuditFault:
    return verify(AuditFolder(root), **options).faults[0]  # type: ignore[arg-type]


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_an_unaltered_log_is_verified(root: Path) -> None:
    """PG-15: verification passes over segments, restarts and checkpoints."""
    result = verify(AuditFolder(root))

    assert result.faults == ()
    assert (result.records, result.checkpoints) == (len(records(root)), 2)
    assert result.signed < result.last == result.records
    assert verify(AuditFolder(root), every_hash=True).faults == ()


@pytest.mark.parametrize("every_hash", [False, True])
def test_any_bit_of_any_record_is_found(root: Path, *, every_hash: bool) -> None:
    """000-R099, 000-R111, PG-15: record and field are named, covered by a checkpoint or not."""
    rng = random.Random(7)
    for _ in range(150):
        number, (path, offset, line) = rng.choice(list(enumerate(records(root), 1)))
        position, bit = rng.randrange(len(line)), rng.randrange(8)
        flip(path, offset + position, bit)

        fault = first_fault(root, every_hash=every_hash)

        expected = field_at(line[:-1], position) if position < len(line) - 1 else "line"
        assert (fault.number, fault.field, fault.file) == (number, expected, path.name), line
        flip(path, offset + position, bit)
    assert verify(AuditFolder(root)).faults == ()


def _remove(lines: list[bytes], at: int) -> int:
    del lines[at]
    return at + 1


def _double(lines: list[bytes], at: int) -> int:
    lines.insert(at + 1, lines[at])
    return at + 2


def _swap(lines: list[bytes], at: int) -> int:
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return at + 1


def _cut(lines: list[bytes], at: int) -> int:
    del lines[at:]
    return at + 1


def _cut_inside(lines: list[bytes], at: int) -> int:
    lines[at:] = [lines[at][:-40]]
    return at + 1


@pytest.mark.parametrize("change", [_remove, _double, _swap, _cut, _cut_inside])
@pytest.mark.parametrize("segment", [1, 2, 3])
def test_misplaced_and_missing_records_are_found(
    root: Path, change: Callable[[list[bytes], int], int], segment: int
) -> None:
    """000-R111: removed, doubled, reordered and cut records; the first one is named."""
    path = root / f"segment-{segment:08}.jsonl"
    before = sum(other < path for other, _, _ in records(root))
    lines = path.read_bytes().splitlines(keepends=True)
    places = [0, len(lines) // 2, len(lines) - 2]
    for at in places:
        altered = list(lines)
        place = change(altered, at)
        path.write_bytes(b"".join(altered))

        fault = first_fault(root)

        assert fault.number == before + place
        assert fault.file in {path.name, f"segment-{segment + 1:08}.jsonl"}


def test_the_last_records_cannot_be_removed(root: Path) -> None:
    """000-A04: the head knows how many there were, although no checkpoint covers them."""
    path = root / "segment-00000003.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))

    fault = first_fault(root)

    assert (fault.number, fault.field) == (len(records(root)) + 1, "file")


def test_a_doubled_last_record_is_found(root: Path) -> None:
    """A line after the head counts only if it continues the chain."""
    path, _, line = records(root)[-1]
    path.write_bytes(path.read_bytes() + line)

    assert first_fault(root).field == "number"


@pytest.mark.parametrize("segment", [1, 2, 3])
def test_a_removed_segment_is_found(root: Path, segment: int) -> None:
    """000-R111: also one that a checkpoint covers, unless a checkpoint says it was removed."""
    path = root / f"segment-{segment:08}.jsonl"
    before = sum(other < path for other, _, _ in records(root))
    path.unlink()

    fault = first_fault(root)

    assert (fault.number, fault.field, fault.file) == (before + 1, "file", path.name)


def test_swapped_segments_are_found(root: Path) -> None:
    one, two = (root / f"segment-0000000{n}.jsonl" for n in (1, 2))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)

    assert first_fault(root).number == 1


def _rewrite(root: Path, number: int) -> None:
    """Alter a record and compute every hash after it again, as someone without the key could."""
    link: Link = START
    folder, head = AuditFolder(root), AuditFolder(root).head()
    for path in sorted(root.glob("segment-*.jsonl")):
        lines = []
        for line in path.read_bytes().splitlines():
            values = orjson.loads(line)
            entry = AuditEntry(
                session_id=values["session_id"],
                tick=values["tick"],
                event_type=EventType(values["event_type"]),
                raw_content="forged" if values["number"] == number else values["raw_content"],
                timestamp=values["timestamp"],
                lens_activations=values["lens_activations"],
                steering_applied=values["steering_applied"],
            )
            written, link = PreparedEntry(entry, be_id=values["be_id"]).line(
                link, sequence=values["sequence"]
            )
            lines.append(written)
        path.write_bytes(b"".join(lines))
        offset = sum(map(len, lines))
    folder.write_head(
        Head(
            segment=head.segment,
            offset=offset,
            number=link.number,
            record_hash=link.record_hash,
            full_hash=link.full_hash,
            checkpoint=head.checkpoint,
            checkpoint_hash=head.checkpoint_hash,
            checkpoint_record=head.checkpoint_record,
        )
    )


def test_a_rewritten_chain_does_not_match_its_checkpoint(root: Path) -> None:
    """PG-15: whoever recomputes every hash still cannot sign."""
    _rewrite(root, 3)

    fault = first_fault(root)

    assert fault.number == 1
    assert "are not those that checkpoint 1 signed" in fault.reason


def test_verification_begins_at_any_checkpoint(root: Path) -> None:
    """What was altered before the checkpoint is not searched for again."""
    flip(root / "segment-00000001.jsonl", 40, 1)

    after_one = verify(AuditFolder(root), start=1)
    after_two = verify(AuditFolder(root), start=2)

    assert first_fault(root).number == 1
    assert (after_one.faults, after_two.faults) == ((), ())
    assert after_one.records == len(records(root)) - 16
    assert after_two.records < after_one.records
    with pytest.raises(NotFound, match="there is no checkpoint 3; the log has 2"):
        verify(AuditFolder(root), start=3)


def test_a_fault_after_the_checkpoint_is_found_from_there(root: Path) -> None:
    path, offset, _ = records(root)[-2]
    flip(path, offset + 300, 0)

    assert first_fault(root, start=2).number == len(records(root)) - 1


def _lines(root: Path) -> list[bytes]:
    return (root / "checkpoints.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "checkpoint"),
    [
        (lambda lines: lines[::-1], 1),
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:1], 2),
        (lambda lines: [lines[0], lines[0], lines[1]], 2),
        (lambda lines: [lines[0].replace(b'"time":1', b'"time":2', 1), lines[1]], 1),
        (lambda lines: [lines[0], lines[1][:-5] + b'ff"}\n'], 2),
        (lambda lines: [lines[0], b"{}\n", lines[1]], 2),
        (lambda _lines: [], 1),
    ],
)
def test_altered_checkpoints_are_found(
    root: Path, change: Callable[[list[bytes]], list[bytes]], checkpoint: int
) -> None:
    """PG-15: swapped, removed, doubled and edited checkpoints; the first one is named."""
    (root / "checkpoints.jsonl").write_bytes(b"".join(change(_lines(root))))

    assert f"checkpoint {checkpoint}" in {fault.place for fault in verify(AuditFolder(root)).faults}


def test_any_bit_of_a_checkpoint_is_found(root: Path) -> None:
    rng = random.Random(3)
    path = root / "checkpoints.jsonl"
    first = len(_lines(root)[0])
    for _ in range(60):
        position, bit = rng.randrange(path.stat().st_size - 1), rng.randrange(8)
        flip(path, position, bit)

        places = [fault.place for fault in verify(AuditFolder(root)).faults]

        assert places[0] == f"checkpoint {1 if position < first else 2}"
        flip(path, position, bit)


def test_a_checkpoint_of_another_log_is_found(root: Path, tmp_path: Path) -> None:
    """A valid signature of another key, or about another log, proves nothing here."""
    other = tmp_path / "other"
    asyncio.run(filled(other, 20))
    make_checkpoint(AuditFolder(other), load_key(other / "signing.key"), now=1)
    (root / "checkpoints.jsonl").write_bytes((other / "checkpoints.jsonl").read_bytes())

    assert first_fault(root).place == "checkpoint 1"


def test_a_key_that_was_kept_elsewhere_finds_a_log_that_was_signed_anew(root: Path) -> None:
    """Who owns the folder can replace the key in it; the public key elsewhere shows that."""
    kept = orjson.loads((root / "audit.json").read_bytes())["public_key"]

    assert verify(AuditFolder(root), public_key=kept).faults == ()
    assert verify(AuditFolder(root), public_key="00" * 32).faults[0].place == "checkpoint 1"
    with pytest.raises(Incorrect, match="'00' is not a public key"):  # and the log is not accused
        verify(AuditFolder(root), public_key="00")


def test_an_altered_head_is_found(root: Path) -> None:
    rng = random.Random(5)
    path = root / "head.json"
    for _ in range(40):
        position, bit = rng.randrange(path.stat().st_size - 1), rng.randrange(8)
        flip(path, position, bit)

        assert [fault.place for fault in verify(AuditFolder(root)).faults] == ["head"]
        flip(path, position, bit)


def test_an_altered_log_is_not_signed(root: Path) -> None:
    """A signature over an altered record would make it genuine."""
    path, offset, _ = records(root)[-1]
    flip(path, offset + 100, 0)

    with pytest.raises(ChainBroken, match=f"record {len(records(root))}"):
        make_checkpoint(AuditFolder(root), load_key(root / "signing.key"), now=1)
    assert len(_lines(root)) == 2


def test_a_key_that_others_can_read_is_refused(root: Path) -> None:
    (root / "signing.key").chmod(0o644)

    with pytest.raises(Denied, match="chmod 600"):
        load_key(root / "signing.key")


async def test_the_first_record_makes_no_checkpoint(tmp_path: Path) -> None:
    """PG-16: checkpoints come after so many records, and when one is asked for."""
    await filled(tmp_path / "audit", 4, checkpoint_records=5)
    assert _lines(tmp_path / "audit") == []

    await filled(tmp_path / "audit", 2, checkpoint_records=5)

    async with await opened(tmp_path / "audit") as log:
        status = await log.status()
        again = await log.checkpoint()
        unchanged = await log.checkpoint()
    assert (status.checkpoints, status.signed) == (1, 5)
    assert again is not None
    assert again.number == 2
    assert unchanged == again


async def test_a_half_written_checkpoint_is_replaced(root: Path) -> None:
    """A crash while a checkpoint was appended costs that checkpoint only."""
    with (root / "checkpoints.jsonl").open("ab") as file:
        file.write(_lines(root)[0][:50])

    async with await opened(root) as log:
        await log.writer.record(**record(1))
        signed = await log.checkpoint()
        result = await log.verify()

    assert signed is not None
    assert (signed.number, result.faults, result.checkpoints) == (3, (), 3)


async def test_retention_removes_only_what_a_checkpoint_covers(tmp_path: Path) -> None:
    """000-R210, 000-A32: old segments go, the rest still verifies, and the act is recorded."""
    root = tmp_path / "audit"
    await created(root)
    async with await opened(root, segment_bytes=5_000) as log:
        for number in range(40):
            await log.writer.record(**record(number, timestamp=number))
        for number in range(40, 60):
            await log.writer.record(**record(number))
        with pytest.raises(Incorrect, match="at least 30 days"):
            await log.remove_old(keep_days=29)
        # The first record of a segment is made when the segment begins: it is always new.
        assert await log.remove_old(keep_days=30) == 1
        result: AuditVerification = await log.verify()

    assert not (root / "segment-00000001.jsonl").exists()
    assert result.faults == ()
    assert result.records < result.last
    actions = [line for _, _, line in records(root) if b"removed segments" in line]
    assert len(actions) == 1
    (root / "segment-00000002.jsonl").unlink()
    assert first_fault(root).file == "segment-00000002.jsonl"


def exported(root: Path, target: Path) -> Path:
    async def run() -> None:
        async with await opened(root) as log:
            await log.export(CREDENTIAL, target, progress=lambda _done, _all: None)

    asyncio.run(run())
    return target


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(SCRIPT), str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_a_third_party_verifies_an_export_without_ctxmgr(root: Path, tmp_path: Path) -> None:
    """000-R111: fifty lines of Python are enough, and they find what was altered."""
    folder = exported(root, tmp_path / "export")
    public_key = orjson.loads((root / "audit.json").read_bytes())["public_key"]

    honest = run_script(folder, public_key)

    assert honest.returncode == 0, honest.stderr
    assert honest.stdout.startswith("OK ")
    assert run_script(folder, "11" * 32).returncode == 1
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 75


@pytest.mark.parametrize("name", ["records.jsonl", "checkpoints.jsonl"])
def test_the_script_finds_tampering(root: Path, tmp_path: Path, name: str) -> None:
    """000-R111: any bit, and lines that were removed, doubled, swapped or cut."""
    folder = exported(root, tmp_path / "export")
    path = folder / name
    genuine = path.read_bytes()
    lines = genuine.splitlines(keepends=True)
    rng = random.Random(1)
    altered = [lines[1:], lines[:-1], [*lines[:1], *lines], lines[::-1], [*lines[:-1], b"{}\n"]]
    variants = [b"".join(variant) for variant in altered]
    for _ in range(8):
        data = bytearray(genuine)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        variants.append(bytes(data))

    for variant in variants:
        path.write_bytes(variant)
        result = run_script(folder)

        assert result.returncode == 1, result.stdout
        assert "ALTERED" in result.stderr, result.stderr


def test_an_export_does_not_overwrite(root: Path, tmp_path: Path) -> None:
    with pytest.raises(Incorrect, match="exists already"):
        exported(root, tmp_path)


def test_a_log_is_not_created_twice(root: Path) -> None:
    with pytest.raises(Incorrect, match="holds an audit log already"):
        asyncio.run(AuditLog.create(root, log_id="x"))
