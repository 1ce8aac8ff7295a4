"""The layout of the demo on a terminal: chapters, turns, suggestions. No I/O.

    turn     the agent's words and tool calls
    tokens   of the prompt, by section, with a bar
    objects  by level, after the turn

Fits 80 columns.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ctxmgr.harness.demo.report import Chapter, Demo, TurnShown

SECTIONS: Final = {
    "system_prompt": ("system", "magenta"),
    "metadata_pool": ("pool", "cyan"),
    "chat": ("chat", "green"),
    "active_content": ("active", "yellow"),
}
"""The column title and colour of each section, in the order of the prompt."""

LEVELS: Final = {"active": "full", "metadata": "line", "indexed": "index", "pinned": "pinned"}

BAR_CELLS: Final = 10
"""Length of the longest bar: with it a row fits 80 columns."""

CELL_WIDTH: Final = 11
LABEL_WIDTH: Final = 7

_HASH: Final = re.compile(r"^([0-9a-f]{24})[0-9a-f]{40}$")
"""Hashes are shortened; JSON has them in full."""

MARKS: Final = {True: ("✓", "bold green"), False: ("✗", "bold red")}


def story(demo: Demo) -> RenderableType:
    """Lay out the whole demo."""
    longest = max((turn.tokens_all for turn in demo.turns), default=1)
    parts: list[RenderableType] = [_opening(demo)]
    for number, chapter in enumerate(demo.chapters, start=1):
        parts += _chapter(number, chapter, longest=longest)
    return Group(*parts, *_ending(demo))


def _opening(demo: Demo) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_row("store", Text(demo.store))
    grid.add_row("sandbox", Text(demo.sandbox))
    grid.add_row("tokens", Text(f"of the prompt by section, counted by {demo.tokens_by}"))
    grid.add_row("objects", Text("after the turn: shown in full, as a line, only indexed"))
    return Panel(grid, title="ctxmgr demo", title_align="left", border_style="dim", width=80)


def _chapter(number: int, chapter: Chapter, *, longest: int) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(Text(f"{number}  {chapter.title}", "bold cyan"), align="left", style="dim cyan")
    yield Padding(Text(chapter.says), (0, 2, 1, 2))
    if chapter.facts:
        yield Padding(_facts(chapter.facts), (0, 0, 1 if chapter.turns else 0, 2))
    for turn in chapter.turns:
        yield _turn(turn, longest=longest)


def _facts(facts: Sequence[Mapping[str, str]]) -> RenderableType:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in facts[0]:
        table.add_column(name, overflow="fold")
    for fact in facts:
        table.add_row(*(Text(_HASH.sub(r"\1…", value)) for value in fact.values()))
    return table


def _turn(turn: TurnShown, *, longest: int) -> RenderableType:
    says = Text(turn.says, "italic")
    for action in turn.did:
        failed = action.endswith("(failed)")
        says.append(f"\n▸ {action}", "red not italic" if failed else "blue not italic")
    head = Table.grid(padding=(0, 1, 0, 0))
    head.add_column(width=LABEL_WIDTH, style="bold")
    head.add_column(overflow="fold")
    head.add_row(f"turn {turn.turn}", says)
    return Padding(Group(head, _figures(turn, longest=longest)), (0, 0, 1, 1))


def _figures(turn: TurnShown, *, longest: int) -> RenderableType:
    tokens = [
        _cell(name, turn.tokens.get(section, 0), style)
        for section, (name, style) in SECTIONS.items()
    ]
    objects = [_cell(name, turn.objects.get(level, 0)) for level, name in LEVELS.items()]
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL_WIDTH, style="dim")
    for _ in range(len(SECTIONS) + 1):
        grid.add_column(width=CELL_WIDTH, no_wrap=True)
    grid.add_column(no_wrap=True)
    bar = _bar(turn, longest=longest)
    grid.add_row("tokens", *tokens, _cell("all", turn.tokens_all, "bold"), bar)
    grid.add_row("objects", *objects, _cell("folded", turn.folded))
    return grid


def _cell(name: str, number: int, style: str = "") -> Text:
    space = " " * max(1, CELL_WIDTH - 1 - len(name) - len(f"{number:,}"))
    return Text.assemble((name, "dim"), space, (f"{number:,}", style if number else "dim"))


def _bar(turn: TurnShown, *, longest: int) -> Text:
    bar, drawn, tokens_so_far = Text(), 0, 0
    for section, (_, style) in SECTIONS.items():
        tokens_so_far += turn.tokens.get(section, 0)
        until = round(tokens_so_far * BAR_CELLS / longest)
        bar.append("█" * (until - drawn), style)
        drawn = until
    return bar


def _ending(demo: Demo) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(style="dim cyan")
    yield _verdict(demo.mended, "the project's own tests pass")
    yield _verdict(demo.proven, "the earlier prompt is what the model received")
    yield Text()
    yield Text("Try next", "bold")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for suggestion in demo.try_next:
        grid.add_row(f"  {suggestion.what}", Text(suggestion.how))
    yield grid


def _verdict(right: bool, what: str) -> Text:  # noqa: FBT001 (shown, not decided on)
    mark, style = MARKS[right]
    return Text.assemble((f" {mark} ", style), what if right else f"not so: {what}")
