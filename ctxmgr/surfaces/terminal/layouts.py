"""Results that a generic table does not suit: logs, timelines, prompts. Prints.

standard output   the result
standard error    the sizes of a prompt, so that standard output is the prompt alone

A timeline has a bar for every prompt, and the reason where its prefix broke:

    turn  prompt                tokens  cached  rewritten
       7  ▓▒▒████████████░░░     4,211     63%      1,558  ✗ changed active_content call-6

Every section has its own character besides its colour, so a bar can be read without colours.
Layouts fit 80 columns.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, Final, Literal

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.core.history.cache_report import UNBROKEN
from ctxmgr.surfaces.encoding import iso, json_bytes, short_id
from ctxmgr.surfaces.terminal.console import escape_controls, print_escaped
from ctxmgr.surfaces.terminal.tables import render
from ctxmgr.surfaces.terminal.tables import show as show_table
from ctxmgr.surfaces.views.as_of import SessionAsOf
from ctxmgr.surfaces.views.differences import CHANGED, GONE, MOVED, NEW, SAME
from ctxmgr.surfaces.views.log import Log, LogEntry, SetChanges
from ctxmgr.surfaces.views.objects import ObjectPage, ObjectView
from ctxmgr.surfaces.views.prompts import PromptView, TurnBlock, TurnView
from ctxmgr.surfaces.views.sessions import SessionOverview
from ctxmgr.surfaces.views.store.diagnosis import Diagnosis
from ctxmgr.surfaces.views.store.sql_rows import SqlRows
from ctxmgr.surfaces.views.timeline import Timeline, TimelineEntry

SIGNS: Final = {
    "system_prompt": ("▓", "magenta"),
    "stable": ("▙", "bright_magenta"),
    "epoch": ("▛", "bright_cyan"),
    "metadata_pool": ("▒", "cyan"),
    "chat": ("█", "green"),
    "active_content": ("░", "yellow"),
    "volatile": ("▚", "bright_yellow"),
}
"""The character and colour of each section in a bar."""

BAR_CELLS: Final = 20
"""Length of the longest bar: with it a row and its reason fit 80 columns."""

RUN_MAX: Final = 3
"""A longer run of unchanged blocks is printed as one line."""

COLUMNS: Final = ("section", "change", "tokens", "name", "object id")
FOLDED: Final = frozenset({"name", "object id"})
"""Columns that may wrap on a terminal of 80 characters."""

_COLOURS: Final = {SAME: "dim", NEW: "green", CHANGED: "yellow", MOVED: "cyan", GONE: "red"}

_SET_COLOURS: Final = {
    "activated": "green",
    "deactivated": "yellow",
    "pinned": "green",
    "unpinned": "yellow",
}

_EARLIER: Final = "turns before {turn} are left out: --before {turn} shows them"


def show(result: Any) -> None:
    """Print a result."""
    match result:
        case PromptView():
            _show_prompt(result)
        case Log():
            print_escaped(log_layout(result))
        case Timeline():
            print_escaped(timeline_layout(result))
        case Diagnosis():
            print_escaped(diagnosis_layout(result))
        case TurnView():
            print_escaped(turn_layout(result))
        case SqlRows():
            print_escaped(sql_layout(result))
        case ObjectPage() | SessionOverview() | SessionAsOf():
            lines = (replace(line, object_id=short_id(line.object_id)) for line in result.objects)
            show_table(replace(result, objects=tuple(lines)))
        case ObjectView():
            show_table(_object_fields(result))
        case _:
            show_table(result)


def _show_prompt(view: PromptView) -> None:
    summary = {
        "session id": view.session_id,
        "turn": view.turn,
        "prompt hash": view.prompt_hash,
        "verified": "by the turn's record" if view.proven else "not sent yet",
        "sections": view.sections,
    }
    print_escaped(render(summary), stderr=True)
    if isinstance(view.prompt, str):
        # Exactly as the model gets it, unless a terminal would obey what is in it.
        shown = escape_controls(view.prompt) if sys.stdout.isatty() else view.prompt
        click.echo(shown, nl=False)
    else:
        click.echo(json_bytes(view.prompt))


def sql_layout(result: SqlRows) -> RenderableType:
    """Lay out the rows of a statement, with its columns and nothing else."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in result.columns:
        table.add_column(Text(name), overflow="fold")
    for row in result.rows:
        table.add_row(*(Text(_sql_value(row[name])) for name in result.columns))
    more = [Text("there are more rows: --limit returns them", style="dim")]
    return Group(table, *(more if result.truncated else []))


def _sql_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def log_layout(log: Log) -> RenderableType:
    parts: list[RenderableType] = []
    if log.earlier is not None:
        parts.append(Text(_EARLIER.format(turn=log.earlier), style="dim"))
    for entry in log.entries:
        when = "not ended" if entry.valid_time is None else iso(entry.valid_time)
        parts += [Text(f"turn {entry.turn}  {when}", style="bold cyan"), _turn(entry)]
    return Group(*(parts or [Text("no turns yet", style="dim")]))


def _turn(entry: LogEntry) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in (("user", entry.user), ("answer", entry.answer)):
        if text:
            table.add_row(f"  {name}", Text(text))
    for call in entry.calls:
        colour = "green" if call.status == "ok" else "red"
        about = f"  {call.char_count} characters  {short_id(call.object_id)}"
        table.add_row("  call", Text.assemble(f"{call.tool}  ", (call.status, colour), about))
    if entry.changes:
        table.add_row("  sets", Text.assemble(*_changes(entry.changes)))
    return table


def _changes(changes: SetChanges) -> Iterator[str | tuple[str, str]]:
    if changes.met:
        yield f"seen {changes.met}  "
    for word, colour in _SET_COLOURS.items():
        ids = getattr(changes, word)
        if ids:
            yield (word, colour)
            yield f" {', '.join(map(short_id, ids))}  "


def _object_fields(view: ObjectView) -> dict[str, Any]:
    """Return an object's fields, with lists replaced by their length."""
    values = {item.name: getattr(view, item.name) for item in fields(view)}
    present = {name: value for name, value in values.items() if value is not None}
    counted = {
        name: f"{len(value)} (listed with --json)" if isinstance(value, list) else value
        for name, value in view.fields.items()
        if value is not None
    }
    return {**present, "fields": counted}


def diagnosis_layout(diagnosis: Diagnosis) -> RenderableType:
    """Lay out a diagnosis: the answer first, then one line for each finding."""
    width = max(len(finding.what) for finding in diagnosis.findings)
    answer = ("yes", "green") if diagnosis.ready else ("no", "red")
    lines = [Text.assemble("ready: ", answer, f" ({diagnosis.summary})"), Text()]
    for finding in diagnosis.findings:
        found = (finding.found, "") if finding.found else ("–", "dim")
        note = (f"  {finding.note}" if finding.note else "", "dim")
        lines.append(Text.assemble((f"{finding.what:<{width}}  ", "bold"), found, note))
    # A path that is broken cannot be copied; the terminal wraps long lines.
    return Group(*(_unwrapped(line) for line in lines))


def _unwrapped(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ignore"
    return text


def timeline_layout(timeline: Timeline) -> RenderableType:
    """Lay out a timeline."""
    if not timeline.entries:
        return Text("no turns yet", style="dim")
    longest = max(entry.prompt_tokens for entry in timeline.entries)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("turn", justify="right", style="bold cyan", no_wrap=True)
    table.add_column("prompt", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("cached", justify="right", no_wrap=True)
    table.add_column("rewritten", justify="right", style="dim", no_wrap=True)
    table.add_column("", overflow="ellipsis")  # the only one that gives way
    for entry in timeline.entries:
        table.add_row(
            str(entry.turn),
            _bar(entry, timeline.sections, longest=longest),
            f"{entry.prompt_tokens:,}",
            _share(entry.cached_tokens, entry.prompt_tokens),
            "" if entry.change in UNBROKEN else f"{entry.rewritten_tokens:,}",
            _reason(entry),
        )
    return Group(*_opening(timeline), table, Text(), *_comments(timeline), _closing(timeline))


def _opening(timeline: Timeline) -> Iterator[RenderableType]:
    if timeline.earlier is not None:
        earlier = timeline.earlier
        yield Text(_EARLIER.format(turn=earlier), style="dim")
    yield Text("   ").join(
        Text.assemble(SIGNS[section], f" {section.replace('_', ' ')}")
        for section in timeline.sections
    )
    yield Text()


def _comments(timeline: Timeline) -> Iterator[RenderableType]:
    commented = [entry for entry in timeline.entries if entry.comment is not None]
    for entry in commented:
        yield Text.assemble((f"turn {entry.turn}: ", "bold cyan"), entry.comment or "")
    if commented:
        yield Text()


def _closing(timeline: Timeline) -> Text:
    count = len(timeline.entries)
    breaks = "1 break" if timeline.breaks == 1 else f"{timeline.breaks} breaks"
    cached = _share(timeline.cached_tokens, timeline.prompt_tokens)
    return Text(
        f"{count} of {timeline.turns} turns: {timeline.prompt_tokens:,} tokens sent, {cached} same "
        f"as the previous prompt; {breaks}, {timeline.rewritten_tokens:,} tokens rewritten"
        f"{_money(timeline)}"
    )


def _money(timeline: Timeline) -> str:
    amounts = [
        f"${usd:,.4f}{note}"
        for usd, note in ((timeline.usd, ""), (timeline.estimated_usd, " (estimated)"))
        if usd
    ]
    if not amounts:
        return ""
    missing = f", {timeline.unpriced} without a price" if timeline.unpriced else ""
    return f"; {' + '.join(amounts)}{missing}"


def _bar(entry: TimelineEntry, sections: tuple[str, ...], *, longest: int) -> Text:
    bar, drawn, tokens_so_far = Text(), 0, 0
    for section, tokens in zip(sections, entry.tokens, strict=True):
        tokens_so_far += tokens
        until = round(tokens_so_far * BAR_CELLS / longest) if longest else 0
        sign, style = SIGNS[section]
        bar.append(sign * (until - drawn), style)
        drawn = until
    return bar


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _reason(entry: TimelineEntry) -> Text:
    if entry.change in UNBROKEN:
        return Text("first" if entry.change == "first" else "", style="dim")
    where = f" {entry.section}" + (f" {short_id(entry.object_id)}" if entry.object_id else "")
    reason = Text.assemble(("✗ ", "bold red"), (entry.change, "red"), where)
    # On a narrow terminal its end is cut, which is the object's id.
    reason.no_wrap, reason.overflow = True, "ellipsis"
    return reason


def turn_layout(view: TurnView) -> RenderableType:
    """Lay out a prompt in blocks."""
    summary = {
        "session id": view.session_id,
        "turn": view.turn,
        "policy": view.policy,
        "model": view.model,
        "prompt hash": view.prompt_hash,
        "verified": "by the turn's record",
        "common chars": view.common_chars,
        "sections": view.sections,
    }
    parts: list[RenderableType] = [render(summary)]
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
            yield Text.assemble(
                (block.change, _COLOURS[block.change]),
                (f"  {block.section}  {block.tokens:,} tokens  {block.name or ''}", "bold"),
                f"  {short_id(block.object_id)}" if block.object_id else "",
            )
            yield Text(block.text, no_wrap=True, overflow="ignore")
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        right, folded = column == "tokens", column in FOLDED
        justify: Literal["left", "right"] = "right" if right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not folded)
    for (section, change), group in groupby(blocks, lambda block: (block.section, block.change)):
        run = list(group)
        if change == SAME and len(run) > RUN_MAX:
            table.add_row(*_row(section, change, run, name=f"{len(run):,} blocks"))
        else:
            for block in run:
                table.add_row(*_row(section, change, [block], name=block.name))
    yield table


def _row(section: str, change: str, run: Sequence[TurnBlock], *, name: str) -> tuple[Text, ...]:
    only = run[0] if len(run) == 1 else None
    return (
        Text(section),
        Text(change, style=_COLOURS[change]),
        Text(f"{sum(block.tokens for block in run):,}"),
        Text(name),
        Text(short_id(only.object_id) if only and only.object_id and only.name else ""),
    )
