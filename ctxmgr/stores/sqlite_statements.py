"""The SQL of the SQLite store: read from its files, once. Touches package files.

    -- name: visible_entry
    -- What it answers, in a sentence.
    SELECT …;

A statement is known by its name; a migration is a whole file, known by its number.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*\n?", re.MULTILINE)
_MIGRATION: Final = re.compile(r"(\d{3})_\w+\.sql")


@cache
def statements(file: str = "statements.sql") -> Mapping[str, str]:
    """Every statement of a file by its name; without one, of the store's."""
    text = (files("ctxmgr.stores") / "sql" / file).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    named = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in named}


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that lead from an empty file to today's layout, in order."""
    folder = files("ctxmgr.stores") / "sql"
    numbered = {
        int(found[1]): each.read_text(encoding="utf-8")
        for each in folder.iterdir()
        if (found := _MIGRATION.fullmatch(each.name))
    }
    assert sorted(numbered) == list(range(1, len(numbered) + 1)), "migrations have gaps"
    return tuple(numbered[number] for number in sorted(numbered))
