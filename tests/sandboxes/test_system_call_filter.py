"""The system call filter, run by an interpreter of its instructions on every architecture."""

import errno
import platform
import struct
from itertools import product
from typing import Final

import pytest

from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.system_call_filter import ARCHITECTURES, Architecture, filter_program

ALLOWED: Final = 0x7FFF0000
EVERY: Final = [
    pytest.param(machine, architecture, id=f"{machine}-{architecture.audit:x}")
    for machine, architectures in ARCHITECTURES.items()
    for architecture in architectures
]


def answer(machine: str, audit: int, number: int, *arguments: int) -> int:
    """Run the program for one call; return 0 if it is allowed, else the error's number."""
    words = (number, audit, 0, 0, *(word for it in arguments for word in (it & 0xFFFFFFFF, 0)))
    data = struct.pack(f"={len(words)}I", *words).ljust(64, b"\0")
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    at = value = 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x06:
            return 0 if constant == ALLOWED else constant & 0xFFFF
        else:
            holds = {
                0x15: value == constant,
                0x35: value >= constant,
                0x45: bool(value & constant),
            }[code]
            at += if_true if holds else if_false


@pytest.mark.parametrize(("machine", "architecture"), EVERY)
def test_the_calls_of_the_keyring_are_refused(machine: str, architecture: Architecture) -> None:
    """On every architecture that the machine can run, or the agent would use another."""
    found = {answer(machine, architecture.audit, number) for number in architecture.keys}

    assert found == {errno.EPERM}


@pytest.mark.parametrize(("machine", "architecture"), EVERY)
def test_a_mode_with_a_set_id_bit_is_refused(machine: str, architecture: Architecture) -> None:
    """And every other mode is allowed: builds change modes all the time."""
    for (number, at), (mode, expected) in product(
        architecture.modes.items(), [(0o4755, 1), (0o2755, 1), (0o6000, 1), (0o1777, 0), (0o644, 0)]
    ):
        arguments = [0o6000] * at + [mode]  # what comes before is no mode

        found = answer(machine, architecture.audit, number, *arguments)

        assert found == (errno.EPERM if expected else 0), number


@pytest.mark.parametrize(("machine", "architecture"), EVERY)
def test_opening_is_refused_only_if_it_creates_such_a_file(
    machine: str, architecture: Architecture
) -> None:
    """Without O_CREAT the argument of the mode has no meaning and any value."""
    for number, at in architecture.opens.items():
        for flags, mode, expected in [
            (0o100, 0o4755, errno.EPERM),
            (0o20200000, 0o4755, errno.EPERM),
            (0o101, 0o644, 0),
            (0o2, 0o7777, 0),
        ]:
            found = answer(machine, architecture.audit, number, *[0] * at, flags, mode)

            assert found == expected, (number, flags, mode)


@pytest.mark.parametrize(("machine", "architecture"), EVERY)
def test_calls_that_a_filter_cannot_read_are_not_implemented(
    machine: str, architecture: Architecture
) -> None:
    """openat2 and io_uring could create the same files; programs do without them."""
    assert {answer(machine, architecture.audit, number) for number in (437, 425)} == {errno.ENOSYS}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_another_architecture_is_not_implemented(machine: str) -> None:
    """Its numbers mean other calls."""
    assert answer(machine, 0x12345678, 1) == errno.ENOSYS


def test_the_x32_calls_are_not_implemented() -> None:
    """They have the same architecture as those of x86-64 and other numbers."""
    assert answer("x86_64", 0xC000003E, 0x40000000 + 250) == errno.ENOSYS


def test_the_machine_of_the_tests_has_a_filter() -> None:
    """Otherwise no test of bubblewrap would run."""
    assert filter_program(platform.machine())


def test_a_machine_without_a_filter_is_named() -> None:
    """A sandbox without its filter is not started."""
    with pytest.raises(Unavailable, match="vax"):
        filter_program("vax")
