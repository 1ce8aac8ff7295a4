"""Results for people that a table does not suit: a session told, a prompt. Prints.

standard output   the result
standard error    beside a prompt, what it is made of: so that the output is the prompt alone
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctxmgr.surfaces.bars import bars
from ctxmgr.surfaces.block_tables import taken_apart
from ctxmgr.surfaces.chronicle import Call, Entry, Log, SetChanges
from ctxmgr.surfaces.consoles import print_visibly
from ctxmgr.surfaces.object_pages import ObjectPage
from ctxmgr.surfaces.object_views import ObjectView
from ctxmgr.surfaces.past_views import SessionAsOf
from ctxmgr.surfaces.prompt_views import PromptView
from ctxmgr.surfaces.session_views import ObjectLine, SessionOverview
from ctxmgr.surfaces.tables import iso, json_bytes, render, short_id
from ctxmgr.surfaces.tables import show as show_table
from ctxmgr.surfaces.timelines import Timeline
from ctxmgr.surfaces.turn_views import TurnView

_WORDS = {"activated": "green", "deactivated": "yellow", "pinned": "green", "unpinned": "yellow"}


def show(result: Any) -> None:
    """Print for a person."""
    match result:
        case PromptView():
            _show_prompt(result)
        case Log():
            print_visibly(_told(result))
        case Timeline():
            print_visibly(bars(result))
        case TurnView():
            print_visibly(taken_apart(result))
        case ObjectPage() | SessionOverview() | SessionAsOf():
            show_table(replace(result, objects=_short(result.objects)))
        case ObjectView():
            show_table(_known(result))
        case _:
            show_table(result)


def _show_prompt(view: PromptView) -> None:
    beside = {
        "session id": view.session_id,
        "turn": view.turn,
        "prompt hash": view.prompt_hash,
        "proven": "by the record of that turn" if view.proven else "not sent yet",
        "sections": view.sections,
    }
    print_visibly(render(beside), stderr=True)
    if isinstance(view.prompt, str):
        click.echo(view.prompt, nl=False)
    else:
        click.echo(json_bytes(view.prompt))


def _told(log: Log) -> RenderableType:
    parts: list[RenderableType] = []
    if log.earlier is not None:
        earlier = f"turns before {log.earlier} are left out: --before {log.earlier} shows them"
        parts.append(Text(earlier, style="dim"))
    for entry in log.entries:
        when = "not ended" if entry.valid_time is None else iso(entry.valid_time)
        parts += [Text(f"turn {entry.turn}  {when}", style="bold cyan"), _turn(entry)]
    return Group(*(parts or [Text("no turns yet", style="dim")]))


def _turn(entry: Entry) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in (("user", entry.user), ("answer", entry.answer)):
        if text:
            table.add_row(f"  {name}", Text(text))
    for call in entry.calls:
        table.add_row("  call", _call(call))
    if entry.changes:
        table.add_row("  sets", Text.assemble(*_changes(entry.changes)))
    return table


def _call(call: Call) -> Text:
    colour = "green" if call.status == "ok" else "red"
    about = f"  {call.char_count} characters  {short_id(call.object_id)}"
    return Text.assemble(f"{call.tool}  ", (call.status, colour), about)


def _changes(changes: SetChanges) -> Iterator[str | tuple[str, str]]:
    if changes.met:
        yield f"met {changes.met}  "
    for word, colour in _WORDS.items():
        ids = getattr(changes, word)
        if ids:
            yield (word, colour)
            yield f" {', '.join(map(short_id, ids))}  "


def _short(lines: Iterable[ObjectLine]) -> tuple[ObjectLine, ...]:
    return tuple(replace(each, object_id=short_id(each.object_id)) for each in lines)


def _known(view: ObjectView) -> dict[str, Any]:
    """What there is to say of an object, its lists counted: a chat has a thousand turns."""
    given = {each.name: getattr(view, each.name) for each in fields(view)}
    known = {name: value for name, value in given.items() if value is not None}
    counted = {
        name: f"{len(value)}, --json lists them" if isinstance(value, list) else value
        for name, value in view.fields.items()
        if value is not None
    }
    return {**known, "fields": counted}
