"""Results for people (tables) and for programs (JSON). Prints to standard output.

One rule serves every result, so that a new operation needs nothing here: a list of values is a
table, one value is a table of its fields, and values and lists inside it follow with their name as
title, then long texts. Times are shown in ISO 8601 and ids of files by their beginning, where a
session makes it clear; in JSON they are whole.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.core.documents import ID
from ctxmgr.core.hashes import is_hash
from ctxmgr.harness.chapters import Demo
from ctxmgr.surfaces.consoles import print_visibly
from ctxmgr.surfaces.story import story

CELL_LENGTH_MAX: Final = 120
"""Characters of a cell in a list; the whole is one `get` or `--json` away."""

_INSTANTS: Final = frozenset(
    {
        "valid_time",
        "system_time",
        "valid_from",
        "valid_to",
        "asked_valid_time",
        "asked_system_time",
    }
)
_MINUTES: Final = frozenset({"started", "last_activity"})
"""Times that a person only wants to know roughly."""

BELOW: Final = frozenset({"content", "diff"})
"""Texts that stand below a table of fields, as they are."""

ROOMY_COLUMNS_MAX: Final = 8
"""Columns with two spaces between them; of more, 80 characters hold the headings with one."""

SHORT_ID_LENGTH: Final = 12
"""Of a file's id in a session's list: enough to name it there."""

_COLOURED: Final = frozenset({"state", "status", "level"})
_COLOURS: Final = {
    "active": "green",
    "damaged": "red",
    "deleted": "red",
    "fail": "red",
    "indexed": "dim",
    "live": "green",
    "nontext": "yellow",
    "ok": "green",
    "paused": "yellow",
    "stub": "dim",
}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
_MARKS: Final = {None: "–", True: "yes", False: "no"}


def show(result: Any) -> None:
    """Print for a person."""
    print_visibly(_render(result))


def json_bytes(result: Any) -> bytes:
    """Encode for a program. Integers have any size."""
    value = plain(result)
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, indent=2, ensure_ascii=False).encode()


def plain(value: Any) -> Any:
    """The value as JSON knows it."""
    if is_dataclass(value):
        return {name: plain(each) for name, each in _fields(value).items()}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def render(result: Any) -> RenderableType:
    """Lay a result out for a console."""
    return _render(result)


def _render(value: Any) -> RenderableType:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Demo):
        return story(value)
    if _is_list(value):
        return _list_table(value)
    return _value_table(_unseen(value) if is_dataclass(value) else value)


def _value_table(named: Mapping[str, Any]) -> RenderableType:
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    parts: list[RenderableType] = []
    for name, value in _flattened(named):
        if (name in BELOW and isinstance(value, str)) or _is_value(value):
            parts += _part_below(name, value)
        elif not (_is_list(value) and not value) and (name, value) != ("cursor", None):
            table.add_row(name.replace("_", " "), _cell(name, value, length=None))
    return Group(*([table] if table.rows else []), *parts)


def _is_value(value: Any) -> bool:
    """Tell what is a table of its own."""
    return is_dataclass(value) or bool(_is_list(value) and value and is_dataclass(value[0]))


def _part_below(name: str, value: Any) -> list[RenderableType]:
    if value == "":
        return []
    title = Text(name.replace("_", " "), style="bold underline")
    if isinstance(value, str):
        return [Text(), title, diff_text(value) if name == "diff" else _as_it_is(value)]
    return [Text(), title, _list_table(value) if _is_list(value) else _value_table(_fields(value))]


def diff_text(diff: str) -> Text:
    """Colour a unified diff."""
    text = _as_it_is("")
    for line in diff.splitlines(keepends=True):
        bold = line.startswith(("--- ", "+++ "))
        text.append(line, style="bold" if bold else _DIFF_COLOURS.get(line[0], ""))
    return text


def _as_it_is(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ignore")


def short_id(object_id: str) -> str:
    """Return as much of an id as a person needs to name it in a session."""
    return object_id[:SHORT_ID_LENGTH] if is_hash(object_id) else object_id


def _list_table(values: Sequence[Any]) -> RenderableType:
    if not values:
        return Text("nothing", style="dim")
    rows = [_row(each) for each in values]
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    gap = 2 if len(names) <= ROOMY_COLUMNS_MAX else 1
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
    names.sort(key=lambda name: isinstance(rows[0][name], Mapping))  # documents last
    for name in names:
        table.add_column(
            name.replace("_", " "), overflow="fold", no_wrap=name in _INSTANTS | _MINUTES
        )
    for row in rows:
        table.add_row(*(_cell(name, row[name], length=CELL_LENGTH_MAX) for name in names))
    return table


def _cell(name: str, value: Any, *, length: int | None) -> Text:
    if name in _INSTANTS and isinstance(value, int):
        return Text(iso(value))
    if name in _MINUTES and isinstance(value, int):
        return Text(iso(value)[: len("YYYY-MM-DDTHH:MM")] + "Z")
    if value is None or isinstance(value, bool):
        return Text(_MARKS[value])
    if isinstance(value, float):
        return Text(f"{value:.3g}")
    if name in _COLOURED and isinstance(value, str):
        return Text(value, style=_COLOURS.get(value, ""))
    text = value if isinstance(value, str) else _brief(value)
    if length is not None and len(text) > length:
        text = text[: length - 1] + "…"
    return Text(text)


def _brief(value: Any) -> str:
    if _is_list(value) and value and is_dataclass(value[0]):
        ids = [_fields(each).get("object_id") or str(each) for each in value]
        return ", ".join(map(str, ids))
    if _is_list(value) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    if isinstance(value, int | Path):
        return str(value)
    if isinstance(value, Mapping) and ID in value:
        value = {name: each for name, each in value.items() if _tells(name, each)}
    return json.dumps(plain(value), ensure_ascii=False)


def _tells(name: str, value: Any) -> bool:
    """In a list, a document shows what it says, not what it is known by."""
    return value is not None and name not in (ID, "source") and not name.endswith("_hash")


def iso(instant: int) -> str:
    """UTC milliseconds as people write them."""
    moment = datetime.fromtimestamp(instant // 1000, UTC).replace(microsecond=instant % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flattened(named: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A document's fields, or a status's details, stand beside their owner's."""
    parts: list[tuple[str, Any]] = []
    for name, value in named.items():
        if isinstance(value, Mapping):
            parts += value.items()
        else:
            parts.append((name, value))
    return parts


def _row(value: Any) -> Mapping[str, Any]:
    if is_dataclass(value):
        return _unseen(value)
    return value if isinstance(value, Mapping) else {"value": value}


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _unseen(value: Any) -> dict[str, Any]:
    """Leave out what was shown as it came."""
    return {
        each.name: getattr(value, each.name)
        for each in fields(value)
        if not each.metadata.get("streamed")
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
