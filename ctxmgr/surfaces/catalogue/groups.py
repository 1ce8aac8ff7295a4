"""How the commands are arranged: groups, headings, and where those of the layers are declared.

A group is a command with commands below it, a section is a heading in ``ctxmgr --help``.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.surfaces.operation import Operation

GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audit": "Keep a tamper-evident record of what agents did.",
        "experience": "Query what agents experienced, token by token.",
        "harness": "Take part in a session from a program in any language.",
        "knowledge": "Keep notes in git, and ask where they came from.",
        "memory": "Keep what agents learnt beyond their sessions.",
        "lifecycle": "Turn transcripts into notes, and keep notes in order.",
        "store": "Read, verify and back up the store itself.",
        "topics": "See which topics a message activates, and why.",
        "xtdb": "Run a local XTDB server.",
    }
)
"""Groups of commands, and what they are for.

An operation may have the name of a group, which then needs no entry here: ``ctxmgr sessions`` lists
sessions.
"""

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Start": ("demo", "run", "setup", "doctor", "serve", "trust"),
        "Look": (
            *("sessions", "show", "log", "timeline", "turn", "unfold", "context", "diff"),
            *("objects", "calls", "as-of", "cache", "usage", "compare", "recall", "search"),
            "compile",
        ),
        "Change": ("activate", "deactivate", "pin", "unpin", "comment", "compact", "fork", "purge"),
        "Move": ("export", "import", "import-recorded"),
        "Serve": ("serve", "mcp", "hook", "harness", "proxy", "wrap", "token"),
        "Know": ("memory", "knowledge", "lifecycle", "topics", "experience"),
        "Store": ("store", "audit", "xtdb"),
        "Develop": ("bench", "completion"),
    }
)
"""The headings of ``ctxmgr --help``, and the commands and groups under each."""


def _declared_in(module: str, name: str) -> Callable[[], tuple[Operation, ...]]:
    def load() -> tuple[Operation, ...]:
        declaring: Any = import_module(f"ctxmgr.surfaces.catalogue.{module}")
        operations: tuple[Operation, ...] = getattr(declaring, name)
        return operations

    return load


_KNOWLEDGE: Final = _declared_in("knowledge", "KNOWLEDGE_OPERATIONS")
_EVERYTHING: Final = _declared_in("operations", "OPERATIONS")

LATE_COMMANDS: Final[Mapping[str, Callable[[], tuple[Operation, ...]]]] = MappingProxyType(
    {
        "audit": _declared_in("audit", "AUDIT_OPERATIONS"),
        "compile": _KNOWLEDGE,
        "experience": _declared_in("experience", "EXPERIENCE_OPERATIONS"),
        "knowledge": _KNOWLEDGE,
        "lifecycle": _KNOWLEDGE,
        "mcp": _EVERYTHING,
        "memory": _declared_in("memory", "MEMORY_OPERATIONS"),
        "serve": _EVERYTHING,
        "topics": _KNOWLEDGE,
    }
)
"""Commands and groups whose declarations are imported when one of them is used.

Most commands use no layer, and the types of the layers' results would double what they import.
"""
