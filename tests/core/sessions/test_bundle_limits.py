"""What a bundle may cost whoever imports it: bytes, memory and time."""

import gzip
import json
import sys
from asyncio import create_subprocess_exec, wait_for
from asyncio.subprocess import PIPE
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import BundleDamaged, Incorrect, to_document
from ctxmgr.core.events.lifecycle import ACTIVE, PAUSED, lifecycle_document
from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import object_hash, sha256
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.sessions import bundle_io, bundle_limits
from ctxmgr.core.sessions.bundle import BundledWrite, BundleWriter
from ctxmgr.core.sessions.bundle_io import check_bundle
from ctxmgr.core.sessions.bundle_limits import BundleBudget
from ctxmgr.core.store.canonical import canonical
from tests.core.sessions.hostile_bundles import read_bundle

MEMORY_BYTES = 1_500_000_000
"""Of the address space of a process that checks a hostile bundle; Python itself takes a third."""

PROCESSOR_S = 30


def bundled(*lines: bytes) -> bytes:
    root = sha256(*lines)
    heading = f'{{"ctxmgr_bundle":1,"root":"{root}","session":"s"}}\n'.encode()
    return gzip.compress(heading + b"".join(lines))


def line(sequence: int, object_id: str, fields: dict[str, Any], *, hashed: str = "") -> bytes:
    write = {"id": object_id, "valid_from": 1, "hash": hashed, "fields": fields}
    return json.dumps({"sequence": sequence, "writes": [write]}).encode() + b"\n"


def long_text() -> bytes:
    """300 megabytes of the same letter, in a thousandth of that."""
    text = {"xt/id": {"=": "t"}, "type": {"=": "turn"}, "x": {"=": "a" * 10_000_000}}
    return bundled(*(line(number, "t", text) for number in range(30)))


def empty_lists() -> bytes:
    """Three bytes each, and seventy in memory."""
    lists = b"[],".join([b""] * 5_000_000)
    write = b'{"fields":{"x":{"=":[' + lists + b'[]]}},"hash":"","id":"t","valid_from":1}'
    return bundled(b'{"sequence":1,"writes":[' + write + b"]}\n")


def repeated_document() -> bytes:
    """Versions of two hundred bytes, each of a text of fifteen megabytes."""
    source = FilesystemSource(filesystem_id="disk", path="/a")
    file = File(source=source, content="a" * 15_000_000, file_hash=sha256(b""))
    whole = {name: {"=": value} for name, value in to_document(file).items()}
    lines = [line(0, file.object_id, whole)]
    for number in range(1, 200):
        hashed = sha256(b"%d" % number)
        version = object_hash(file=hashed, content=file.content_hash, metadata=file.metadata_hash)
        change = {"file_hash": {"=": hashed}, "object_hash": {"=": version}}
        lines.append(line(number, file.object_id, change))
    return bundled(*lines)


def many_versions() -> bytes:
    """Two states in turn, which take a few bytes each."""
    states = [lifecycle_document("s", state=state) for state in (ACTIVE, PAUSED)]
    hashes = [sha256(canonical(state)) for state in states]
    whole = {name: {"=": value} for name, value in states[0].items()}
    lines = [line(0, "lifecycle:s", whole, hashed=hashes[0])]
    for number in range(1, 30_000):
        change = {"state": {"=": states[number % 2]["state"]}}
        lines.append(line(number, "lifecycle:s", change, hashed=hashes[number % 2]))
    return bundled(*lines)


CHECKING = """
import asyncio, pathlib, resource, sys
from ctxmgr import CtxmgrError
from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.sessions.bundle_io import check_bundle
from ctxmgr.core.sessions.bundle_limits import BundleBudget

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]),) * 2)
try:
    asyncio.run(check_bundle(pathlib.Path(sys.argv[1]).read_bytes(), check_record=check_record))
except CtxmgrError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("made", "limit"),
    [
        (long_text, "unpacks to more than"),
        (empty_lists, "lists and maps|unpacks to more than"),
        (repeated_document, "repeats documents of more than"),
        (many_versions, "holds more than"),
    ],
)
async def test_a_hostile_bundle_takes_neither_the_memory_nor_the_day(
    tmp_path: Path, made: Any, limit: str
) -> None:
    """A bundle of a megabyte could take gigabytes and minutes; the error names the limit."""
    path = tmp_path / "hostile.bundle"
    path.write_bytes(made())
    arguments = (str(path), str(MEMORY_BYTES), str(PROCESSOR_S))

    process = await create_subprocess_exec(
        sys.executable, "-c", CHECKING, *arguments, stdout=PIPE, stderr=PIPE
    )
    output, errors = await wait_for(process.communicate(), 10 * PROCESSOR_S)

    assert process.returncode == 0, errors.decode()
    assert any(words in output.decode() for words in limit.split("|")), output.decode()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("LINE_BYTES_MAX", 100, "has a line of more than 100 bytes"),
        ("LINE_CONTAINERS_MAX", 3, "has a line of more than 3 lists and maps"),
        ("VALUES_MAX", 10, "holds more than 10 values"),
    ],
)
def test_each_limit_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, words: str
) -> None:
    """Whoever meets a limit must be able to look it up."""
    packing = BundleWriter()
    note = {"xt/id": "n", "type": "note", "items": [[1, 2, 3]] * 5}
    packing.add([(1, BundledWrite(document=note, valid_from=1))])
    bundle = read_bundle(packing.to_bytes("s")[0])
    monkeypatch.setattr(bundle_limits, name, value)
    bundle = replace(bundle, _budget=BundleBudget(1_000))

    with pytest.raises(Incorrect, match=words):
        list(bundle.transactions())


async def test_what_compresses_too_well_is_exported_uncompressed() -> None:
    """An import accepts whatever an export writes."""
    data = b"x" * (bundle_limits.UNPACKED_FREE + 1_000_000)

    packed = bundle_io._packed(data)

    assert len(data) <= bundle_limits.BundleBudget(len(packed)).unpacked_max
    assert gzip.decompress(packed) == data
    assert len(bundle_io._packed(b"x" * 1_000)) < 100


@pytest.mark.parametrize("time", ["7", 1.5, -1, None, True, 10**18, float("inf")])
async def test_a_time_that_is_none_is_refused(time: Any) -> None:
    """An infinite time was a raw error, and a far future hid whatever came after it."""
    packing = BundleWriter()
    document = lifecycle_document("s", state=ACTIVE)
    packing.add([(1, BundledWrite(document=document, valid_from=time))])

    with pytest.raises(BundleDamaged, match="is not a time"):
        await check_bundle(gzip.compress(packing.to_bytes("s")[0]), check_record=check_record)
