"""The layout of the demo on a terminal: parts as they happen, then what came of it. No I/O.

    turn          the agent's words and tool calls
    prompt        tokens of the prompt, with a bar
    append-only   tokens of a prompt that holds everything in full

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

from ctxmgr.harness.demo.report import (
    ChapterStarted,
    Demo,
    DemoPart,
    DemoStarted,
    FactsFound,
    TurnShown,
)

BAR_TOKENS: Final = 250
"""Tokens of a bar's cell: the longest prompt of the demo then fits a row of 80 columns."""

BAR_CELLS_MAX: Final = 52

LABEL_WIDTH: Final = 12

_HASH: Final = re.compile(r"^([0-9a-f]{24})[0-9a-f]{40}$")
"""Hashes are shortened; JSON has them in full."""

MARKS: Final = {True: ("✓", "bold green"), False: ("✗", "bold red")}


def part_layout(part: DemoPart) -> RenderableType:
    """Lay out a part of the demo."""
    match part:
        case DemoStarted():
            return _opening(part)
        case ChapterStarted():
            return Group(*_chapter(part))
        case TurnShown():
            return _turn(part)
        case FactsFound(facts=facts):
            return Padding(_facts(facts), (0, 0, 1, 2))


def ending(demo: Demo) -> RenderableType:
    """Lay out what came of the demo."""
    return Group(*_ending(demo))


def _opening(started: DemoStarted) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_row("store", Text(started.store))
    grid.add_row("sandbox", Text(started.sandbox))
    grid.add_row("prompt", Text(f"tokens sent to the model, counted by {started.tokens_by}"))
    grid.add_row("append-only", Text("tokens of a loop that keeps everything in its messages"))
    return Panel(grid, title="ctxmgr demo", title_align="left", border_style="dim", width=80)


def _chapter(chapter: ChapterStarted) -> Iterator[RenderableType]:
    yield Text()
    title = Text(f"{chapter.number}  {chapter.title}", "bold cyan")
    yield Rule(title, align="left", style="dim cyan")
    yield Padding(Text(chapter.says), (0, 2, 1, 2))


def _facts(facts: Sequence[Mapping[str, str]]) -> RenderableType:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in facts[0]:
        table.add_column(name, overflow="fold")
    for fact in facts:
        table.add_row(*(Text(_HASH.sub(r"\1…", value)) for value in fact.values()))
    return table


def _turn(turn: TurnShown) -> RenderableType:
    says = Text(turn.says, "italic")
    for action in turn.did:
        failed = action.endswith("(failed)")
        says.append(f"\n▸ {action}", "red not italic" if failed else "blue not italic")
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL_WIDTH, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(f"turn {turn.turn}", says)
    grid.add_row(Text("prompt", "dim"), _bar(turn.tokens, "green"))
    grid.add_row(Text("append-only", "dim"), _bar(turn.append_only_tokens, "yellow"))
    return Padding(grid, (0, 0, 1, 1))


def _bar(tokens: int, style: str) -> Text:
    cells = min(BAR_CELLS_MAX, max(1, round(tokens / BAR_TOKENS)))
    return Text.assemble((f"{tokens:7,} ", "bold"), ("█" * cells, style))


def _ending(demo: Demo) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(style="dim cyan")
    yield _verdict(demo.fixed, "the project's own tests pass")
    yield _verdict(demo.proven, "the earlier prompt is what the model received")
    yield Text(
        f"   {demo.tokens:,} prompt tokens in {len(demo.turns)} turns; append-only: "
        f"{demo.append_only_tokens:,}.\n   With a provider's cache, the prompts cost "
        f"{demo.cost_ratio:.0%} of the append-only ones."
    )
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
