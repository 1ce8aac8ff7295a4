"""The system call filter of bubblewrap sandboxes: a seccomp program. Pure.

    keyctl, add_key, request_key     refused: the client's keyring holds credentials, and a process
                                     inherits it
    chmod, open, mknod and the like  refused with a set-user-ID or set-group-ID bit: such a file in
                                     a mount would run with the client's rights for every user of
                                     the host
    openat2, io_uring_setup          not implemented: their arguments are in memory, which a filter
                                     cannot read; programs fall back to the calls above

Everything else is allowed. The numbers are those of <asm/unistd.h>. A call of another architecture
than the machine's is not implemented, except 32-bit calls, which have rules of their own.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import Unavailable

SET_ID_BITS: Final = 0o6000
"""S_ISUID and S_ISGID."""

CREATING: Final = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: without them, open takes no mode."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF instructions: load a word, compare it with a constant, test bits, return."""

_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
"""SECCOMP_RET_ALLOW and SECCOMP_RET_ERRNO, from <linux/seccomp.h>."""

_EPERM, _ENOSYS = 1, 38
"""From <asm-generic/errno.h>."""

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data. Arguments have eight bytes, of which the low four come first."""

_X32: Final = 0x40000000
"""Numbers from here on are calls of the x32 ABI on x86-64."""

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The numbers of the calls that have rules."""

    audit: int
    """AUDIT_ARCH_… in <linux/audit.h>."""
    keys: tuple[int, ...]
    """add_key, request_key, keyctl."""
    modes: Mapping[int, int]
    """Calls with a mode, and which argument that is."""
    opens: Mapping[int, int]
    """Calls with flags and a mode after them, and which argument the flags are."""


_UNREADABLE: Final = (437, 425)
"""openat2 and io_uring_setup, on every architecture."""

_X86_64: Final = Architecture(
    audit=0xC000003E,
    keys=(248, 249, 250),
    modes={90: 1, 91: 1, 268: 2, 452: 2, 133: 1, 259: 2, 85: 1},
    opens={2: 1, 257: 2},
)
_I386: Final = Architecture(
    audit=0x40000003,
    keys=(286, 287, 288),
    modes={15: 1, 94: 1, 306: 2, 452: 2, 14: 1, 297: 2, 8: 1},
    opens={5: 1, 295: 2},
)
_GENERIC: Final = Architecture(
    audit=0xC00000B7,
    keys=(217, 218, 219),
    modes={52: 1, 53: 2, 452: 2, 33: 2},
    opens={56: 2},
)
_ARM: Final = Architecture(
    audit=0x40000028,
    keys=(309, 310, 311),
    modes={15: 1, 94: 1, 333: 2, 452: 2, 14: 1, 324: 2, 8: 1},
    opens={5: 1, 322: 2},
)
_RISCV64: Final = Architecture(
    audit=0xC00000F3, keys=_GENERIC.keys, modes=_GENERIC.modes, opens=_GENERIC.opens
)

ARCHITECTURES: Final[Mapping[str, tuple[Architecture, ...]]] = MappingProxyType(
    {"x86_64": (_X86_64, _I386), "aarch64": (_GENERIC, _ARM), "riscv64": (_RISCV64,)}
)
"""By the machine's name (``uname -m``), its own architecture and the 32-bit one that it runs."""


def filter_program(machine: str) -> bytes:
    """Return the program for a machine, as ``bwrap --seccomp`` reads it."""
    if machine not in ARCHITECTURES:
        raise Unavailable(
            f"bubblewrap has no system call filter for {machine} machines: use Docker instead"
        )
    program: list[Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for architecture in ARCHITECTURES[machine]:
        rules = _rules(architecture)
        program += [(_EQUAL, 0, len(rules), architecture.audit), *rules]
    program.append(_fail(_ENOSYS))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _rules(architecture: Architecture) -> list[Instruction]:
    rules: list[Instruction] = [(_LOAD, 0, 0, _NUMBER)]
    if architecture is _X86_64:
        rules += [(_AT_LEAST, 0, 1, _X32), _fail(_ENOSYS)]
    for number in architecture.keys:
        rules += _if_called(number, [_fail(_EPERM)])
    for number in _UNREADABLE:
        rules += _if_called(number, [_fail(_ENOSYS)])
    for number, mode in architecture.modes.items():
        rules += _if_called(number, _check_mode(mode))
    for number, flags in architecture.opens.items():
        check = _check_mode(flags + 1)
        # A file that is not created gets no mode: jump to the last instruction, which allows it.
        creating = [_load(flags), (_ANY_BIT, 0, len(check) - 1, CREATING), *check]
        rules += _if_called(number, creating)
    return [*rules, (_RETURN, 0, 0, _ALLOW)]


def _if_called(number: int, then: Sequence[Instruction]) -> list[Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _check_mode(argument: int) -> list[Instruction]:
    bits = (_ANY_BIT, 0, 1, SET_ID_BITS)
    return [_load(argument), bits, _fail(_EPERM), (_RETURN, 0, 0, _ALLOW)]


def _load(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, _FAIL | number)
