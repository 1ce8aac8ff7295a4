"""Results for people (tables) and for programs (JSON). Prints to standard output.

One rule serves every result, so that a new operation needs nothing here: a list of values is a
table, one value is a table of its fields, and lists inside it follow with their name as title.
Times are shown in ISO 8601; in JSON they stay milliseconds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.core.documents import ID
from ctxmgr.harness.chapters import Demo
from ctxmgr.surfaces.story import story

CELL_LENGTH_MAX: Final = 120
"""Characters of a cell in a list; the whole is one `get` or `--json` away."""

_INSTANTS: Final = frozenset({"valid_time", "system_time", "valid_from", "valid_to"})
_MARKS: Final = {None: "–", True: "yes", False: "no"}


def show(result: Any) -> None:
    """Print for a person."""
    console = Console(highlight=False)
    console.print(_render(result))


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
        if _is_list(value) and value and is_dataclass(value[0]):
            parts += [Text(), Text(name, style="bold underline"), _list_table(value)]
        elif not (_is_list(value) and not value) and (name, value) != ("cursor", None):
            table.add_row(name.replace("_", " "), _cell(name, value, length=None))
    return Group(*([table] if table.rows else []), *parts)


def _list_table(values: Sequence[Any]) -> RenderableType:
    if not values:
        return Text("nothing", style="dim")
    rows = [_row(each) for each in values]
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    names.sort(key=lambda name: isinstance(rows[0][name], Mapping))  # documents last
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold", no_wrap=name in _INSTANTS)
    for row in rows:
        table.add_row(*(_cell(name, row[name], length=CELL_LENGTH_MAX) for name in names))
    return table


def _cell(name: str, value: Any, *, length: int | None) -> Text:
    if name in _INSTANTS and isinstance(value, int):
        return Text(iso(value))
    if value is None or isinstance(value, bool):
        return Text(_MARKS[value])
    if isinstance(value, float):
        return Text(f"{value:.3g}")
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
        return _fields(value)
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
