"""A prompt taken apart, on a terminal: its sections, its blocks, what is gone. Prints nothing.

Blocks that are the same as before tell little: many of them in a row are one line.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.surfaces.block_changes import CHANGED, GONE, MOVED, NEW, SAME
from ctxmgr.surfaces.tables import render, short_id
from ctxmgr.surfaces.turn_views import TurnBlock, TurnView

RUN_MAX: Final = 3
"""Blocks in a row that are told one by one though they are the same."""

COLUMNS: Final = ("section", "change", "tokens", "name", "object id")
FOLDED: Final = frozenset({"name", "object id"})
"""Columns that may take several lines where a terminal has 80 characters."""

_COLOURS: Final = {SAME: "dim", NEW: "green", CHANGED: "yellow", MOVED: "cyan", GONE: "red"}


def taken_apart(view: TurnView) -> RenderableType:
    """Lay a prompt out in blocks."""
    beside = {
        "session id": view.session_id,
        "turn": view.turn,
        "policy": view.policy,
        "model": view.model,
        "prompt hash": view.prompt_hash,
        "proven": "by the record of that turn",
        "common chars": view.common_chars,
        "sections": view.sections,
    }
    parts: list[RenderableType] = [render(beside)]
    parts += _part("blocks", view.blocks, full=view.full)
    parts += _part("gone", view.gone, full=view.full)
    return Group(*parts)


def _part(name: str, blocks: Sequence[TurnBlock], *, full: bool) -> Iterator[RenderableType]:
    if not blocks:
        return
    yield Text()
    yield Text(name, style="bold underline")
    if full:
        for block in blocks:
            yield Text.assemble(*_heading(block))
            yield Text(block.text, no_wrap=True, overflow="ignore")
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        right, folded = column == "tokens", column in FOLDED
        justify: Literal["left", "right"] = "right" if right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not folded)
    for row in _rows(blocks):
        table.add_row(*row)
    yield table


def _heading(block: TurnBlock) -> Iterator[str | tuple[str, str]]:
    yield (block.change, _COLOURS[block.change])
    yield (f"  {block.section}  {block.tokens:,} tokens  {block.name or ''}", "bold")
    yield f"  {short_id(block.object_id)}" if block.object_id else ""


def _rows(blocks: Sequence[TurnBlock]) -> Iterator[tuple[Text, ...]]:
    for (section, change), some in groupby(blocks, lambda each: (each.section, each.change)):
        run = list(some)
        if change == SAME and len(run) > RUN_MAX:
            yield _row(section, change, run, name=f"{len(run):,} blocks")
        else:
            for each in run:
                yield _row(section, change, [each], name=each.name)


def _row(section: str, change: str, run: Sequence[TurnBlock], *, name: str) -> tuple[Text, ...]:
    only = run[0] if len(run) == 1 else None
    return (
        Text(section),
        Text(change, style=_COLOURS[change]),
        Text(f"{sum(each.tokens for each in run):,}"),
        Text(name),
        Text(short_id(only.object_id) if only and only.object_id and only.name else ""),
    )
