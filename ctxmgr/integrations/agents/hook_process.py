"""The process of a hook: spools the event on standard input, and starts what stores it.

Clients wait for their hooks, so that this imports almost nothing. Everything unusual is left to the
command line: SessionStart, which has an answer, input that is no event, and other options.
"""

from __future__ import annotations

import io
import os
import sys
import time

from ctxmgr.integrations.agents.spool import (
    DRAINER,
    EVENT_BYTES_MAX,
    SpooledEvent,
    SpoolError,
    append,
    spool_folder,
    try_lock,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

ANSWERED: Final = frozenset({"SessionStart"})
"""Events whose hook prints something for the model."""

STORED: Final = frozenset(
    {"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"}
    | {"StopFailure", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"}
    | {"BeforeAgent", "AfterTool", "AfterAgent", "PreCompress"}
)
"""Events that carry something: of Claude Code and Codex, and the other names of Gemini CLI."""

PROJECT_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "OPENCODE_PROJECT_DIR")
"""Set by a client for its hooks: the folder in which the person started it."""

_NAME: Final = b'"hook_event_name"'


def run_hook(arguments: Sequence[str]) -> int | None:
    """Spool an event; return the exit code, or None if the command line has to handle it."""
    url = store_of(arguments, os.environ)
    state = _state(os.environ)
    if url is None or state is None or sys.stdin is None or sys.stdin.isatty():
        return None
    data = sys.stdin.buffer.read(EVENT_BYTES_MAX + 1)
    name = _event_name(data)
    if name is None or name in ANSWERED or len(data) > EVENT_BYTES_MAX:
        sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        return None
    if name not in STORED:
        sys.stdout.write(f'{{"systemMessage": "{unused(name)}"}}\n')
        return 0
    base = os.getcwd()
    folder = spool_folder(state, url, base=base)
    try:
        append(folder, received(data, os.environ), url=url, base=base)
    except SpoolError as error:
        sys.stderr.write(f"ctxmgr: the event is not kept: {error}\n")
        return 1
    _start_draining(folder, url)
    return 0


def received(data: bytes, environment: Mapping[str, str]) -> SpooledEvent:
    """Return an event as it is spooled: with what only the hook's process knows."""
    project = next((environment[name] for name in PROJECT_VARIABLES if environment.get(name)), "")
    return SpooledEvent(
        at=time.time_ns() // 1_000_000,
        project=project,
        client_folder=environment.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"),
        codex_folder=environment.get("CODEX_HOME") or os.path.expanduser("~/.codex"),
        data=data,
    )


def unused(name: str) -> str:
    """Say that an event is not stored."""
    return f"ctxmgr does not use the event {name:.80}; nothing was stored"


def store_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the store's URL; None: it takes the settings to know."""
    match list(arguments):
        case ["--store", url] if url:
            return url
        case [] if environment.get("CTXMGR_STORE"):
            return environment["CTXMGR_STORE"]
        case [] if not _has_settings(environment):  # as ``settings.default_store_url``
            data = _own_folder(environment, "XDG_DATA_HOME", ".local/share")
            return f"sqlite:///{data}/ctxmgr.db"
    return None


def _has_settings(environment: Mapping[str, str]) -> bool:
    """Whether a settings file, or a variable in other letters, may name the store."""
    if any(name.upper() == "CTXMGR_STORE" and value for name, value in environment.items()):
        return True
    own = _own_folder(environment, "XDG_CONFIG_HOME", ".config")
    return any(os.path.lexists(os.path.join(folder, "ctxmgr.toml")) for folder in (".", own))


def _state(environment: Mapping[str, str]) -> str | None:
    """Return the state folder, as ``settings.state_dir`` does on Linux; None elsewhere."""
    if sys.platform != "linux":
        return None
    return _own_folder(environment, "XDG_STATE_HOME", ".local/state")


def _own_folder(environment: Mapping[str, str], variable: str, default: str) -> str:
    root = environment.get(variable, "").strip() or os.path.expanduser(f"~/{default}")
    return os.path.abspath(os.path.join(root, "ctxmgr"))


def _event_name(data: bytes) -> str | None:
    """Return the name of an event without parsing it; None if that needs a parser.

    In a string of JSON the quotes would be escaped, so that these bytes are a key. If it occurs
    twice, one of them is in the arguments of a tool.
    """
    if data.count(_NAME) != 1 or not data.strip().startswith(b"{"):
        return None
    rest = data[data.find(_NAME) + len(_NAME) :].lstrip()
    if not rest.startswith(b":"):
        return None
    rest = rest[1:].lstrip()
    end = rest.find(b'"', 1)
    if not rest.startswith(b'"') or end < 0 or not data.rstrip().endswith(b"}"):
        return None
    name = rest[1:end].decode("ascii", "replace")
    return name if name.isalnum() and name.isascii() else None


def _start_draining(folder: str, url: str) -> None:
    """Start a process that stores the events, unless one runs. It outlives the client."""
    lock = try_lock(folder, DRAINER)
    if lock is None:
        return
    lock.close()
    # -P: the working directory is the agent's, and nothing is imported from there.
    program = [sys.executable, "-P", "-m", "ctxmgr.surfaces.terminal.entry"]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.posix_spawn(
            sys.executable,
            [*program, "hook", "--drain"],
            {**os.environ, "CTXMGR_STORE": url},  # others see arguments, and it may have a password
            file_actions=[(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)],
            setsid=True,
        )
    except OSError:
        return  # the next command that opens the store does it
    finally:
        os.close(null)
