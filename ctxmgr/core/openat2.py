"""Linux's openat2: one call for a whole path below a folder, if no link is in it. Asks the kernel.

Most paths have no link. For them the kernel walks in one call what ``walking`` walks part by part;
it refuses at the first link, and what it refuses is walked.
"""

import ctypes
import os
import sys
from functools import cache
from typing import Final

_NUMBER: Final = 437
"""Of the system call, on every architecture."""

_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_straight(folder: int, path: bytes) -> int | None:
    """Open what is there, without reading it; None if it takes a walk to know what is there."""
    call = _call()
    if call is None:
        return None
    fd: int = call(_NUMBER, folder, path, _HOW_AT, _HOW_BYTES)
    return None if fd < 0 else fd


_HOW: Final = _How(
    getattr(os, "O_PATH", 0) | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS | _NO_LINKS | _BENEATH
)
_HOW_AT: Final = ctypes.byref(_HOW)
_HOW_BYTES: Final = ctypes.sizeof(_How)


@cache
def _call() -> "ctypes._NamedFuncPointer | None":
    # Before Linux 5.6 and under some filters the call fails, and everything is walked.
    if sys.platform != "linux":
        return None
    call = ctypes.CDLL(None).syscall
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )
    call.restype = ctypes.c_long
    return call
