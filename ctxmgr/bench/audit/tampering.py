"""Tamper with an audit log in many ways and count what ``verify`` finds. Writes files."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import orjson

from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.verify import AuditFault
from ctxmgr.bench.audit.log_folder import entries, opened, segments
from ctxmgr.bench.report import Figure, Say

SEED: Final = 20_261_118
BETWEEN: Final = "line"
"""The name of bytes that belong to no value."""

Lines: TypeAlias = list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class TamperSizes:
    records: int
    bits: int
    """Trials with one altered bit."""
    moves: int
    """Trials of each other kind."""


FULL: Final = TamperSizes(records=1_200, bits=1_000, moves=50)
QUICK: Final = TamperSizes(records=120, bits=60, moves=5)


async def tamper_figures(sizes: TamperSizes, *, say: Say) -> list[Figure]:
    """Alter bits of records; remove, reorder, double and cut records; swap checkpoints."""
    say(f"audit: {sizes.bits} altered bits, {4 * sizes.moves} moved records")
    chance = random.Random(SEED)  # noqa: S311 (repeatable trials)
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder) / "audit"
        async with opened(root, create=True) as log:
            for number, entry in enumerate(entries(sizes.records)):
                await log.append(entry)
                if number in {sizes.records // 3, sizes.records // 2}:
                    await log.checkpoint()
            trials = _Trials(root, log)
            bits = [await trials.bit(chance) for _ in range(sizes.bits)]
            moved = [
                await trials.move(change, chance)
                for change in (_remove, _swap, _double, _cut)
                for _ in range(sizes.moves)
            ]
            checkpoints = [await trials.checkpoints(change) for change in _CHECKPOINT_CHANGES]
            assert not (await log.verify()).faults, "every trial was undone"
    return [
        _figure("tampering: one bit of a random record; record and field named", bits),
        _figure(
            "tampering: records removed, swapped, doubled, cut off; the first one named", moved
        ),
        _figure(
            "tampering: checkpoints swapped, removed, doubled; the first one named", checkpoints
        ),
    ]


def _figure(what: str, found: Sequence[bool]) -> Figure:
    return Figure(
        what=what,
        value=sum(found) / len(found),
        bound="all",
        meets=all(found),
        against="–",
        note=f"{sum(found):,} of {len(found):,}",
    )


class _Trials:
    def __init__(self, root: Path, log: AuditLog) -> None:
        self._log = log
        self._checkpoints = root / "checkpoints.jsonl"
        self._segment = segments(root)[0]
        self._lines = self._segment.read_bytes().splitlines(keepends=True)

    async def bit(self, chance: random.Random) -> bool:
        number = chance.randrange(len(self._lines))
        line = self._lines[number]
        position = chance.randrange(len(line))
        altered = bytearray(line)
        altered[position] ^= 1 << chance.randrange(8)
        lines = [*self._lines[:number], bytes(altered), *self._lines[number + 1 :]]
        fault = await self._fault(self._segment, lines, self._lines)
        return fault is not None and (fault.number, fault.field) == (
            number + 1,
            field_at(line, position),
        )

    async def move(self, change: Callable[[Lines, int], int], chance: random.Random) -> bool:
        lines = list(self._lines)
        first = change(lines, chance.randrange(len(lines) - 1))
        fault = await self._fault(self._segment, lines, self._lines)
        return fault is not None and fault.number == first

    async def checkpoints(self, change: Callable[[Lines], tuple[Lines, int]]) -> bool:
        genuine = self._checkpoints.read_bytes().splitlines(keepends=True)
        lines, first = change(list(genuine))
        fault = await self._fault(self._checkpoints, lines, genuine)
        return fault is not None and fault.place == f"checkpoint {first}"

    async def _fault(self, path: Path, lines: Lines, genuine: Lines) -> AuditFault | None:
        await asyncio.to_thread(path.write_bytes, b"".join(lines))
        try:
            faults = (await self._log.verify()).faults
        finally:
            await asyncio.to_thread(path.write_bytes, b"".join(genuine))
        return faults[0] if faults else None


def field_at(line: bytes, position: int) -> str:
    """Return the field whose value holds a byte, by the lengths of the values as written."""
    names: list[str] = list(orjson.loads(line))
    start = 0
    for number, name in enumerate(names):
        start = line.index(b'"%b":' % name.encode(), start) + len(name) + 3
        last = number + 1 == len(names)
        end = len(line) - 2 if last else line.index(b',"%b":' % names[number + 1].encode(), start)
        if start <= position < end:
            return name
        start = end
    return BETWEEN


def _remove(lines: Lines, at: int) -> int:
    del lines[at]
    return at + 1


def _swap(lines: Lines, at: int) -> int:
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return at + 1


def _double(lines: Lines, at: int) -> int:
    lines.insert(at, lines[at])
    return at + 2


def _cut(lines: Lines, at: int) -> int:
    lines[at:] = [lines[at][: len(lines[at]) // 2]]
    return at + 1


_CHECKPOINT_CHANGES: Final[tuple[Callable[[Lines], tuple[Lines, int]], ...]] = (
    lambda lines: (lines[::-1], 1),
    lambda lines: (lines[1:], 1),
    lambda lines: (lines[:1], 2),
    lambda _lines: ([], 1),
    lambda lines: ([lines[0], *lines], 2),
)
