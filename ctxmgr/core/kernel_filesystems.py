"""Filesystems whose files the kernel makes up as they are read. Asks the kernel which one it is.

Their files say they are regular and of size 0, and tell about the process that reads them:
``/proc/self/environ`` read by the client would be the client's environment, with its keys.
"""

import ctypes
import sys
from functools import cache
from typing import Final

MADE_UP: Final = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x62656570,  # configfs
        0xCAFE4A11,  # bpf
        0x6E736673,  # nsfs
        0xF97CFF8C,  # selinuxfs
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0x42494E4D,  # binfmt_misc
        0x65735543,  # fusectl
    }
)
"""The numbers in <linux/magic.h>."""

_Statfs: Final = ctypes.c_char * 256
"""More than struct statfs on any Linux; its first word is the filesystem's number."""

_WORD_MASK: Final = 0xFFFF_FFFF


def is_made_up(fd: int) -> bool:
    """Tell whether an open file is one of these. Only Linux has them."""
    if sys.platform != "linux":
        return False
    answer = _Statfs()
    if _libc().fstatfs(fd, answer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "fstatfs")
    return ctypes.c_long.from_buffer(answer).value & _WORD_MASK in MADE_UP


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
