"""What each coding agent is told in its own files: hooks, and the MCP server.

Reads the plugin of opencode, which is a file of this package.

client        hooks                          MCP server
claude-code   ~/.claude/settings.json        ~/.claude.json
codex         ~/.codex/hooks.json            ~/.codex/config.toml
gemini        ~/.gemini/settings.json        ~/.gemini/settings.json
opencode      …/opencode/plugins/ctxmgr.js    ~/.config/opencode/opencode.json
cursor        –                              ~/.cursor/mcp.json
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.integrations.setup.jsonc import JsonText, Path
from ctxmgr.integrations.setup.toml_blocks import add_table, change_table, get_table, remove_table

SERVER: Final = "ctxmgr"
"""The name of the MCP server."""

_CLAUDE_EVENTS: Final = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
_CODEX_EVENTS: Final = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"),
    *("SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
_GEMINI_EVENTS: Final = (
    *("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "PreCompress", "SessionEnd"),
)
_PLUGIN_COMMAND: Final = 'const COMMAND = ["ctxmgr", "hook"]'
_PROXY_VARIABLE: Final = "ANTHROPIC_BASE_URL"

HOOK_SECONDS: Final = 60
"""How long a client waits for a hook; only that of SessionStart takes more than a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What clients have to start."""

    program: str
    """The absolute path of ``ctxmgr``."""
    store: str
    """The URL of the store, absolute."""
    home: PurePosixPath
    environment: Mapping[str, str]
    proxy: str | None = None
    """The address of a proxy that requests are sent through."""

    @property
    def hook(self) -> str:
        return f"{shlex.quote(self.program)} hook --store {shlex.quote(self.store)}"

    @property
    def server_args(self) -> list[str]:
        return ["mcp", "--store", self.store]

    def folder(self, variable: str, default: str) -> PurePosixPath:
        """Return the folder that an environment variable names, or one in the home folder."""
        named = self.environment.get(variable)
        return PurePosixPath(named) if named else self.home / default


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsEdit:
    """The text of a file after a change, and what is to be remembered of it."""

    text: str
    created: tuple[Path, ...] = ()
    """Objects and arrays that were added around what is ours."""
    values: tuple[Path, ...] = ()
    """Values that are ours: not those that were there already."""
    hooks: tuple[str, ...] = ()
    """Events whose hook is ours."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """Hooks and values in a JSON file."""

    path: PurePosixPath
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By event: the group of hooks that is added."""
    values: Mapping[Path, Any] = field(default_factory=dict)

    def add(
        self, text: str, *, ours: frozenset[Path], hooks: Mapping[str, Mapping[str, Any]]
    ) -> SettingsEdit:
        """Add what is missing. ``ours`` and ``hooks`` are what an earlier setup added."""
        document = JsonText.parse(text)
        values: list[Path] = []
        events: list[str] = []
        created: list[Path] = []
        notes: list[str] = []
        for path, value in self.values.items():
            found = document.get(path)
            if path in ours or found is None:
                values.append(path)
            if found is not None and _includes(found.value, value):
                continue
            if found is not None and path not in ours:
                raise Incorrect(f"it has another {'.'.join(path)}: remove that, and run this again")
            created += _missing(document, path[:-1])
            document = document.set(path, value if found is None else _merged(found.value, value))
        for event, group in hooks.items():
            if _commands(group) != _commands(self.hooks.get(event)):  # of another store, say
                document = _without_group(document, event, group)
        for event, group in self.hooks.items():
            path = ("hooks", event)
            groups = document.get(path)
            if groups is not None and not groups.is_array:
                raise Incorrect(f"{'.'.join(path)} must be an array")
            present = [] if groups is None else [_commands(item) for item in groups.value]
            if any(runs_hook(command) for commands in present for command in commands):
                if _commands(group) not in present:
                    notes.append(f"{event} runs `ctxmgr hook` in another way, which stays")
                elif event in hooks:
                    events.append(event)
                continue
            created += _missing(document, path)
            document = document.append(path, group)
            events.append(event)
        return SettingsEdit(
            text=document.text,
            created=tuple(created),
            values=tuple(values),
            hooks=tuple(events),
            notes=tuple(notes),
        )

    def remove(self, text: str, *, ours: frozenset[Path], created: tuple[Path, ...]) -> str:
        """Remove what was added, and what is empty now and was created for it."""
        document = JsonText.parse(text)
        for event, group in self.hooks.items():
            document = _without_group(document, event, group)
        for path in ours:
            found, added = document.get(path), self.values.get(path)
            if found is not None and isinstance(added, str) and found.value != added:
                continue  # a person has given it another value since
            document = document.remove(path)
        for path in sorted(created, key=len, reverse=True):
            found = document.get(path)
            if found is not None and found.value in ({}, []):
                document = document.remove(path)
        return document.text


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlFile:
    """A table in a TOML file."""

    path: PurePosixPath
    table: str
    values: Mapping[str, Any]

    def add(
        self, text: str, *, ours: frozenset[Path], hooks: Mapping[str, Mapping[str, Any]]
    ) -> SettingsEdit:
        """Add the table, or change its values if an earlier setup added it."""
        assert not hooks
        path = (self.table,)
        found = get_table(text, self.table)
        if found is not None and _includes(found, self.values):
            return SettingsEdit(text=text, values=(path,) if path in ours else ())
        if found is not None and path not in ours:
            raise Incorrect(f"it has another table {self.table}: remove that, and run this again")
        lines = {name: f"{name} = {json.dumps(item)}" for name, item in self.values.items()}
        if found is None:
            text = add_table(text, self.table, list(lines.values()))
        else:
            text = change_table(text, self.table, lines)
        return SettingsEdit(text=text, values=(path,))

    def remove(self, text: str, *, ours: frozenset[Path], created: tuple[Path, ...]) -> str:
        assert not created
        return remove_table(text, self.table) if (self.table,) in ours else text


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """A file that is ours as a whole."""

    path: PurePosixPath
    text: str = field(repr=False)
    """The first line says whose it is."""

    def add(
        self, text: str, *, ours: frozenset[Path], hooks: Mapping[str, Mapping[str, Any]]
    ) -> SettingsEdit:
        """Return our text; ``Incorrect`` if the file is not ours."""
        assert not ours
        assert not hooks
        if text.strip() and not self._is_ours(text):
            raise Incorrect("it was not written by `ctxmgr setup`: move it, and run this again")
        return SettingsEdit(text=self.text)

    def remove(self, text: str, *, ours: frozenset[Path], created: tuple[Path, ...]) -> str:
        assert not ours
        assert not created
        return "" if self._is_ours(text) else text

    def _is_ours(self, text: str) -> bool:
        return text.partition("\n")[0] == self.text.partition("\n")[0]


ClientFile = JsonFile | TomlFile | OwnFile


def client_files(client: str, installation: Installation) -> list[ClientFile]:
    """Return what is added to which file; ``Incorrect`` for an unknown client."""
    if installation.proxy is not None and client != "claude-code":
        raise Incorrect(
            f"the settings of {client} cannot name a proxy: run it with `ctxmgr wrap {client}`"
        )
    return CLIENTS[client](installation)


def runs_hook(command: str) -> bool:
    """Return whether a command of a hook runs ``ctxmgr hook``."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(
        PurePosixPath(word).name in {"ctxmgr", "ctxmgr-agent"} and following == "hook"
        for word, following in pairwise(words)
    )


def _claude_code(installation: Installation) -> list[ClientFile]:
    named = bool(installation.environment.get("CLAUDE_CONFIG_DIR"))
    folder = installation.folder("CLAUDE_CONFIG_DIR", ".claude")
    state = folder / ".claude.json" if named else installation.home / ".claude.json"
    server = {"type": "stdio", "command": installation.program, "args": installation.server_args}
    proxy = installation.proxy
    return [
        JsonFile(
            path=folder / "settings.json",
            hooks={name: _group(installation) for name in _CLAUDE_EVENTS},
            values={} if proxy is None else {("env", _PROXY_VARIABLE): proxy},
        ),
        JsonFile(path=state, values={("mcpServers", SERVER): server}),
    ]


def _codex(installation: Installation) -> list[ClientFile]:
    folder = installation.folder("CODEX_HOME", ".codex")
    hooks = {name: _group(installation) for name in _CODEX_EVENTS}
    values = {"command": installation.program, "args": installation.server_args}
    return [
        JsonFile(path=folder / "hooks.json", hooks=hooks),
        TomlFile(path=folder / "config.toml", table=f"mcp_servers.{SERVER}", values=values),
    ]


def _gemini(installation: Installation) -> list[ClientFile]:
    server = {"command": installation.program, "args": installation.server_args}
    return [
        JsonFile(
            path=installation.home / ".gemini" / "settings.json",
            hooks={name: _group(installation, milliseconds=True) for name in _GEMINI_EVENTS},
            values={("mcpServers", SERVER): server},
        )
    ]


def _opencode(installation: Installation) -> list[ClientFile]:
    folder = installation.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    command = [installation.program, *installation.server_args]
    server = {"type": "local", "command": command, "enabled": True}
    hook = [installation.program, "hook", "--store", installation.store]
    plugin = FilePath(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
    return [
        JsonFile(path=folder / "opencode.json", values={("mcp", SERVER): server}),
        OwnFile(
            path=folder / "plugins" / "ctxmgr.js",
            text=plugin.replace(_PLUGIN_COMMAND, f"const COMMAND = {json.dumps(hook)}"),
        ),
    ]


def _cursor(installation: Installation) -> list[ClientFile]:
    server = {"command": installation.program, "args": installation.server_args}
    path = installation.home / ".cursor" / "mcp.json"
    return [JsonFile(path=path, values={("mcpServers", SERVER): server})]


CLIENTS: Final[Mapping[str, Callable[[Installation], list[ClientFile]]]] = MappingProxyType(
    {
        "claude-code": _claude_code,
        "codex": _codex,
        "opencode": _opencode,
        "gemini": _gemini,
        "cursor": _cursor,
    }
)


def _group(installation: Installation, *, milliseconds: bool = False) -> dict[str, Any]:
    timeout = HOOK_SECONDS * 1000 if milliseconds else HOOK_SECONDS
    hook = {"type": "command", "command": installation.hook, "timeout": timeout}
    return {"hooks": [hook]}


def _commands(group: object) -> list[str]:
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    found = hooks if isinstance(hooks, list) else []
    commands = (hook.get("command") for hook in found if isinstance(hook, Mapping))
    return [command for command in commands if isinstance(command, str)]


def _without_group(document: JsonText, event: str, group: Mapping[str, Any]) -> JsonText:
    """Remove a group of hooks that was added to an event."""
    place, command = ("hooks", event), _commands(group)
    groups = document.get(place)
    items = () if groups is None or not groups.is_array else groups.children
    for number in reversed(range(len(items))):
        if _commands(items[number].node.value) == command:
            document = document.remove_item(place, number)
    return document


def _includes(found: object, value: object) -> bool:
    """Return whether a value is there, perhaps with further members that a person has added."""
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        return all(found.get(name) == item for name, item in value.items())
    return found == value


def _merged(found: object, value: Any) -> Any:
    """Return the new value, with the further members of the one that is there."""
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        return {**found, **value}
    return value


def _missing(document: JsonText, path: Path) -> list[Path]:
    """Return the parts of a path that do not exist."""
    parts = [path[:length] for length in range(1, len(path) + 1)]
    return [part for part in parts if document.get(part) is None]
