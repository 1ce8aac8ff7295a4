"""The trials of `ctxmgr bench audit`, in small."""

from pathlib import Path

import pytest

from ctxmgr.bench.audit.crashes import crash_figures
from ctxmgr.bench.audit.speed import SpeedSizes, append_figures, verify_figures
from ctxmgr.bench.audit.tampering import TamperSizes, field_at, tamper_figures


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def silent(_: str) -> None:
    return


async def test_every_alteration_is_found() -> None:
    """000-R111, PG-15: bits, removed, swapped, doubled and cut records, checkpoints."""
    sizes = TamperSizes(records=40, bits=25, moves=3)

    figures = await tamper_figures(sizes, say=silent)

    assert [figure.meets for figure in figures] == [True, True, True]


async def test_a_killed_process_leaves_what_it_acknowledged() -> None:
    """PG-15: kill -9 while two processes append and sign."""
    (figure,) = await crash_figures(2, say=silent)

    assert figure.meets is True
    assert not figure.note.startswith("0 ")


async def test_speeds_are_measured() -> None:
    """The figures exist; how large they are depends on the machine."""
    sizes = SpeedSizes(records=300, appends=1, rounds=1)

    figures = [*await append_figures(sizes, say=silent), *await verify_figures(sizes, say=silent)]

    assert all(figure.value for figure in figures)


def test_the_field_of_a_byte_is_found_by_the_values() -> None:
    line = b'{"a":1,"b":"x,\\"c\\":"}\n'

    assert [field_at(line, position) for position in (1, 5, 8, 13, 22)] == [
        *("line", "a", "line", "b", "line")
    ]
