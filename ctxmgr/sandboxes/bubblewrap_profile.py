"""The command line of a bubblewrap sandbox: profile, mounts, network, limits. Pure.

    bwrap  profile  /tmp  user  network  mounts  environment
    └── prlimit   limits of each process
        └── sh    goes to the command's folder
            └── the command

Variables are set by bwrap, not around it: a ``LD_PRELOAD`` for the command must not load anything
on this side of the wall. The options go through a file, not on the command line, where everyone on
the host could read the variables and the agent the host's paths.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, Limits
from ctxmgr.errors import Incorrect

OPTIONAL: Final = frozenset({"--disable-userns"})
"""Options that are left out where bubblewrap is older than they are."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "HOME": "/tmp",  # noqa: S108 (the sandbox's own)
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "agent",
}

GO_AND_RUN: Final = 'cd -- "$1" || exit 126; shift; exec "$@"'

NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
"""What programs need to find others by name, if they may."""

_BIND: Final = re.compile(r"--ro-bind(-try)?|--bind(-try)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """All that stays the same from command to command."""

    profile: tuple[tuple[str, ...], ...]
    binds: tuple[Bind, ...]
    """The outer before the inner."""
    scratch: str
    """A folder of the host's: its ``tmp`` is the sandbox's, its ``passwd`` and ``group`` too."""
    network: bool
    limits: Limits


def parse_profile(text: str, *, known: str) -> tuple[tuple[str, ...], ...]:
    """Read a profile; ``known`` is bubblewrap's help, which lists the options it has."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    options: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            options.append([word])
        elif not options:
            raise Incorrect(f"a bubblewrap profile begins with an option, not {word!r:.80}")
        else:
            options[-1].append(word)
    return tuple(tuple(each) for each in options if each[0] not in OPTIONAL or each[0] in known)


def profile_mappings(
    profile: Sequence[Sequence[str]], *, host_id: str, taken: frozenset[str]
) -> Iterator[MountMapping]:
    """Yield the parts of the host that the profile shows, the kernel's own folders aside."""
    for option, *paths in profile:
        if not _BIND.fullmatch(option) or paths[1] in taken or paths[1].startswith("/proc/"):
            continue
        yield MountMapping(agent_prefix=paths[1], canonical_prefix=paths[0], filesystem_id=host_id)


def options(walls: Walls, *, env: Mapping[str, str], status_fd: int) -> list[str]:
    """Return bubblewrap's options for a command."""
    variables = {**ENVIRONMENT, **env}
    return [
        *("--json-status-fd", str(status_fd)),
        *(word for option in walls.profile for word in option),
        *("--bind", f"{walls.scratch}/tmp", "/tmp"),  # noqa: S108 (the sandbox's own)
        *("--ro-bind", f"{walls.scratch}/passwd", "/etc/passwd"),
        *("--ro-bind", f"{walls.scratch}/group", "/etc/group"),
        *_network(allowed=walls.network),
        *(word for bind in walls.binds for word in _bound(bind)),
        *("--remount-ro", "/", "--clearenv"),
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
    ]


def inner_line(limits: Limits, argv: Sequence[str], *, cwd: str) -> list[str]:
    """Return what bubblewrap is to start."""
    return [*_limited(limits), "/bin/sh", "-c", GO_AND_RUN, "sh", cwd, *argv]


def _network(*, allowed: bool) -> Iterator[str]:
    if not allowed:
        yield "--unshare-net"
        return
    for file in NETWORK_FILES:
        yield from ("--ro-bind-try", file, file)


def _bound(bind: Bind) -> tuple[str, str, str]:
    option = "--bind" if bind.writable else "--ro-bind"
    return option, bind.mapping.canonical_prefix, bind.mapping.agent_prefix


def _limited(limits: Limits) -> tuple[str, ...]:
    # Data, not address space: runtimes reserve far more addresses than they ever fill, and Node and
    # Java do not even start under a limit on those.
    return (
        "prlimit",
        f"--data={limits.memory_bytes}",
        f"--nproc={limits.processes}",
        f"--fsize={limits.file_bytes}",
        "--core=0",
        "--",
    )
