"""A session's timeline on a terminal: a bar for every prompt, and where its prefix broke.

    turn  prompt                          tokens  cached
       7  ▓▒▒██████████████████░░░░        4,211     63%  ✗ changed  active_content  call-6

Prints nothing. Every section has a sign of its own besides its colour, so that a bar can be read
without colours too. Laid out for 80 columns and more.
"""

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.core.cache_reading import UNBROKEN
from ctxmgr.surfaces.tables import short_id
from ctxmgr.surfaces.timelines import Timeline, TimelineEntry

SIGNS: Final = {
    "system_prompt": ("▓", "magenta"),
    "stable": ("▙", "bright_magenta"),
    "epoch": ("▛", "bright_cyan"),
    "metadata_pool": ("▒", "cyan"),
    "chat": ("█", "green"),
    "active_content": ("░", "yellow"),
    "volatile": ("▚", "bright_yellow"),
}
"""What a section's tokens are drawn with."""

BAR_CELLS: Final = 24
"""Of the longest prompt: with it a row and its reason fit into 80 columns."""


def bars(timeline: Timeline) -> RenderableType:
    """Lay a timeline out."""
    if not timeline.entries:
        return Text("no turns yet", style="dim")
    longest = max(each.prompt_tokens for each in timeline.entries)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("turn", justify="right", style="bold cyan")
    table.add_column("prompt", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("cached", justify="right")
    table.add_column("", overflow="fold")
    for entry in timeline.entries:
        table.add_row(
            str(entry.turn),
            _bar(entry, timeline.sections, longest=longest),
            f"{entry.prompt_tokens:,}",
            _share(entry.cached_tokens, entry.prompt_tokens),
            _reason(entry),
        )
    return Group(*_opening(timeline), table, Text(), _closing(timeline))


def _opening(timeline: Timeline) -> Iterator[RenderableType]:
    if timeline.earlier is not None:
        earlier = timeline.earlier
        left_out = f"turns before {earlier} are left out: --before {earlier} shows them"
        yield Text(left_out, style="dim")
    yield Text("   ").join(
        Text.assemble(SIGNS[each], f" {each.replace('_', ' ')}") for each in timeline.sections
    )
    yield Text()


def _closing(timeline: Timeline) -> Text:
    shown = len(timeline.entries)
    breaks = "1 break" if timeline.breaks == 1 else f"{timeline.breaks} breaks"
    cached = _share(timeline.cached_tokens, timeline.prompt_tokens)
    return Text(
        f"{shown} of {timeline.turns} turns: {timeline.prompt_tokens:,} tokens sent, {cached} as "
        f"in the prompt before; {breaks}, {timeline.rewritten_tokens:,} tokens written again"
    )


def _bar(entry: TimelineEntry, sections: tuple[str, ...], *, longest: int) -> Text:
    bar, drawn, told = Text(), 0, 0
    for section, tokens in zip(sections, entry.tokens, strict=True):
        told += tokens
        until = round(told * BAR_CELLS / longest) if longest else 0
        sign, style = SIGNS[section]
        bar.append(sign * (until - drawn), style)
        drawn = until
    return bar


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _reason(entry: TimelineEntry) -> Text:
    if entry.change in UNBROKEN:
        return Text("first" if entry.change == "first" else "", style="dim")
    where = f"  {entry.section}" + (f"  {short_id(entry.object_id)}" if entry.object_id else "")
    again = f"  {entry.rewritten_tokens:,} again"
    return Text.assemble(("✗ ", "bold red"), (entry.change, "red"), where, (again, "dim"))
