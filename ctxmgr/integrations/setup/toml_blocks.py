"""Tables of ours in a TOML file that a person writes: appended, and removed again. No I/O.

A table is appended at the end, after a comment line, and ends where the next table begins. Nothing
else of the file changes.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.errors import Incorrect

COMMENT: Final = "# added by `ctxmgr setup`, removed by `ctxmgr setup --remove`"

_HEADER: Final = re.compile(r"^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")


def parse_toml(text: str) -> dict[str, Any]:
    """Read a file; ``Incorrect`` if it is damaged."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Incorrect(f"it is not valid TOML: {error}") from error


def get_table(text: str, name: str) -> Mapping[str, Any] | None:
    """Return a table by its name, such as ``mcp_servers.ctxmgr``; None if there is none."""
    value: Any = parse_toml(text)
    for key in name.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value if isinstance(value, dict) else None


def add_table(text: str, name: str, lines: list[str]) -> str:
    """Append a table; ``Incorrect`` if the file then is not valid."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    added = text + gap + newline.join([COMMENT, f"[{name}]", *lines, ""])
    parse_toml(added)
    return added


def change_table(text: str, name: str, lines: Mapping[str, str]) -> str:
    """Replace the lines of some keys of a table; ``Incorrect`` if they are not lines of it."""
    changed: list[str] = []
    wanted = tomllib.loads("\n".join(lines.values()))
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        inside = _name_of(header) == name if header is not None else inside
        key = line.partition("=")[0].strip()
        end = line[len(line.rstrip("\r\n")) :]
        changed.append(lines[key] + end if inside and key in lines else line)
    edited = "".join(changed)
    if get_table(edited, name) != {**(get_table(text, name) or {}), **wanted}:
        raise Incorrect(f"the table {name} has another form: remove it, and run this again")
    return edited


def remove_table(text: str, name: str) -> str:
    """Remove a table and its subtables, with our comment and the empty line before it.

    Comments below it, which are about what follows, stay.
    """
    kept: list[str] = []
    below: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header is not None:
            found = _name_of(header)
            inside = found == name or found.startswith(f"{name}.")
            if inside:
                _drop_before(kept)
            else:
                kept += below
            below = []
        if not inside:
            kept.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            below.append(line)
        else:
            below = []
    removed = "".join([*kept, *below])
    if parse_toml(removed) != _without(parse_toml(text), name.split(".")):
        raise Incorrect(
            f"the table {name} cannot be told from what is around it: remove it by hand"
        )
    return removed


def _name_of(header: re.Match[str]) -> str:
    return re.sub(r"[\s\"']", "", header[1])


def _without(value: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return the data without a table, and without tables that only contained it."""
    rest = {name: item for name, item in value.items() if name != keys[0]}
    inner = value.get(keys[0])
    if len(keys) == 1 or not isinstance(inner, dict):
        return rest
    left = _without(inner, keys[1:])
    return {**rest, keys[0]: left} if left else rest


def _drop_before(lines: list[str]) -> None:
    """Drop our comment and one empty line at the end of what is kept."""
    if lines and lines[-1].strip() == COMMENT:
        lines.pop()
        if lines and not lines[-1].strip():
            lines.pop()
