"""Results as tables. Prints to standard output.

One rule covers every result, so a new operation needs no code here: a list of values is a table, a
single value is a table of its fields, and nested values and lists follow under their name, then
long texts. Times are printed in ISO 8601.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.core.store.documents import ID
from ctxmgr.harness.demo.report import Demo, DemoPart
from ctxmgr.surfaces.encoding import BELOW, fields_of, iso, plain
from ctxmgr.surfaces.terminal.console import print_escaped
from ctxmgr.surfaces.terminal.demo_story import ending, part_layout

CELL_LENGTH_MAX: Final = 120
"""Characters of a cell in a list; `get` and `--json` print the whole value."""

_INSTANTS: Final = frozenset(
    {
        *("valid_time", "system_time", "valid_from", "valid_to"),
        *("asked_valid_time", "asked_system_time", "started", "last_activity"),
    }
)
_MINUTES: Final = frozenset({"started", "last_activity"})
"""Times printed to the minute."""

UNBROKEN_ID_MAX: Final = 24
"""Characters of the longest session id that keeps its column; people copy ids from a list."""

ROOMY_COLUMNS_MAX: Final = 8
"""Columns that are two spaces apart; more columns are one space apart, to fit 80 characters."""

SHORT_UUID_LENGTH: Final = 8
"""Characters of a UUID in a list: every command takes the beginning of one."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

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
    """Print a result."""
    print_escaped(render(result))


def render(result: Any) -> RenderableType:
    """Lay out a result for a console."""
    if isinstance(result, str):
        return Text(result)
    if isinstance(result, Demo):
        return ending(result)
    if isinstance(result, DemoPart):
        return part_layout(result)
    if _is_list(result):
        return _list_table(result)
    return _value_table(_unstreamed_fields(result) if is_dataclass(result) else result)


def _value_table(fields_by_name: Mapping[str, Any]) -> RenderableType:
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    parts: list[RenderableType] = []
    for name, value in _flattened(fields_by_name):
        if (name in BELOW and isinstance(value, str)) or _is_value(value):
            parts += _part_below(name, value)
        elif not (_is_list(value) and not value) and (name, value) != ("cursor", None):
            table.add_row(name.replace("_", " "), _cell(name, value, length=None))
    if fields_by_name and not table.rows and not parts:  # without fields, all was streamed
        return Text("nothing", style="dim")
    return Group(*([table] if table.rows else []), *parts)


def _is_value(value: Any) -> bool:
    """Return whether a value gets a separate table."""
    return is_dataclass(value) or bool(_is_list(value) and value and is_dataclass(value[0]))


def _part_below(name: str, value: Any) -> list[RenderableType]:
    if value == "":
        return []
    title = Text(name.replace("_", " "), style="bold underline")
    if isinstance(value, str):
        return [Text(), title, diff_text(value) if name == "diff" else _unwrapped(value)]
    return [
        Text(),
        title,
        _list_table(value) if _is_list(value) else _value_table(fields_of(value)),
    ]


def diff_text(diff: str) -> Text:
    """Colour a unified diff."""
    text = _unwrapped("")
    for line in diff.splitlines(keepends=True):
        bold = line.startswith(("--- ", "+++ "))
        text.append(line, style="bold" if bold else _DIFF_COLOURS.get(line[0], ""))
    return text


def _unwrapped(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ignore")


def _list_table(values: Sequence[Any]) -> RenderableType:
    if not values:
        return Text("nothing", style="dim")
    rows = [_row(value) for value in values]
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    gap = 2 if len(names) <= ROOMY_COLUMNS_MAX else 1
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
    names.sort(key=lambda name: isinstance(rows[0][name], Mapping))  # documents last
    lines = [
        {name: _cell(name, row[name], length=CELL_LENGTH_MAX) for name in names} for row in rows
    ]
    for name in names:
        is_whole = name in _INSTANTS or (name == "session_id" and _fits(rows))
        is_whole = is_whole or all(cells[name].no_wrap for cells in lines)
        table.add_column(name.replace("_", " "), overflow="fold", no_wrap=is_whole)
    for cells in lines:
        if len(names) > ROOMY_COLUMNS_MAX and "title" in cells:  # it gives way to the other columns
            cells["title"].no_wrap, cells["title"].overflow = True, "ellipsis"
        table.add_row(*cells.values())
    return table


def _fits(rows: Sequence[Mapping[str, Any]]) -> bool:
    return all(len(str(row["session_id"])) <= UNBROKEN_ID_MAX for row in rows)


def _cell(name: str, value: Any, *, length: int | None) -> Text:
    if name in _MINUTES and isinstance(value, int):
        return Text(iso(value)[: len("YYYY-MM-DDTHH:MM")] + "Z")
    if name in _INSTANTS and isinstance(value, int):
        return Text(iso(value))
    if value is None or isinstance(value, bool):
        return Text(_MARKS[value])
    if isinstance(value, float):
        return Text(f"{value:.3g}")
    if name in _COLOURED and isinstance(value, str):
        return Text(value, style=_COLOURS.get(value, ""))
    text = value if isinstance(value, str) else _brief(value)
    if length is not None and _UUID.fullmatch(text):
        return Text(text[:SHORT_UUID_LENGTH], no_wrap=True)
    if length is not None and _ISO.fullmatch(text):
        return Text(text[: len("YYYY-MM-DDTHH:MM")] + "Z", no_wrap=True)
    if length is not None and len(text) > length:
        text = text[: length - 1] + "…"
    return Text(text)


def _brief(value: Any) -> str:
    if _is_list(value) and value and is_dataclass(value[0]):
        ids = [fields_of(item).get("object_id") or str(item) for item in value]
        return ", ".join(map(str, ids))
    if _is_list(value) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, int | Path):
        return str(value)
    if isinstance(value, Mapping) and ID in value:
        # Ids, hashes and the source are left out of a document in a list.
        value = {
            name: item
            for name, item in value.items()
            if item is not None and name not in (ID, "source") and not name.endswith("_hash")
        }
    return json.dumps(plain(value), ensure_ascii=False)


def _flattened(fields_by_name: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Put the entries of a mapping beside the fields of its owner."""
    parts: list[tuple[str, Any]] = []
    for name, value in fields_by_name.items():
        if isinstance(value, Mapping):
            parts += value.items()
        else:
            parts.append((name, value))
    return parts


def _row(value: Any) -> Mapping[str, Any]:
    if is_dataclass(value):
        row: dict[str, Any] = {}
        for name, part in _listed_fields(value).items():
            row |= _listed_fields(part) if is_dataclass(part) else {name: part}
        return row
    return value if isinstance(value, Mapping) else {"value": value}


def _unstreamed_fields(value: Any) -> dict[str, Any]:
    """Leave out fields that were printed while the operation ran."""
    return {
        item.name: getattr(value, item.name)
        for item in fields(value)
        if not item.metadata.get("streamed")
    }


def _listed_fields(value: Any) -> dict[str, Any]:
    details = {item.name for item in fields(value) if item.metadata.get("detail")}
    shown = _unstreamed_fields(value).items()
    return {name: part for name, part in shown if name not in details}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
