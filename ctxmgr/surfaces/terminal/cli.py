"""The command line, derived from the catalogue. Prints help; ``command`` runs operations.

Only click is imported before a command runs, so that ``--help`` and completion answer at once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ctxmgr import __version__
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.arguments import read_instant
from ctxmgr.surfaces.catalogue import OPERATIONS
from ctxmgr.surfaces.operation import Operation, Parameter


def main() -> None:
    """Run the command line of this process."""
    COMMANDS.main(prog_name="ctxmgr")


class InstantType(click.ParamType[int]):
    """An instant in UTC milliseconds or ISO 8601, converted to milliseconds."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return read_instant(value)
        except Incorrect as error:
            self.fail(str(error), param, ctx)


def build(operations: tuple[Operation, ...]) -> click.Group:
    """Build the command tree."""
    root = click.Group(
        name="ctxmgr",
        help="Decide, turn by turn, what an agent's model sees, and keep every version.",
        params=_root_options(),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    for operation in operations:
        *group, name = operation.name.split()
        _group(root, group).add_command(_command(operation, name))
    return root


def _group(root: click.Group, names: list[str]) -> click.Group:
    for name in names:
        if name not in root.commands:
            root.add_command(click.Group(name=name, help=_GROUP_HELP[name]))
        group = root.commands[name]
        assert isinstance(group, click.Group)
        root = group
    return root


_GROUP_HELP = {"xtdb": "Run a local XTDB server."}


def _root_options() -> list[click.Parameter]:
    return [
        click.Option(["--store"], metavar="URL", help="The store; overrides the settings."),
        click.Option(["-v", "--verbose"], count=True, help="Write logs; -vv writes more."),
        click.Option(["--log-json"], is_flag=True, help="Log one JSON object per line."),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version and exit.",
        ),
    ]


def _print_version(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
    if value:
        click.echo(f"ctxmgr {__version__}")
        ctx.exit()


def _command(operation: Operation, name: str) -> click.Command:
    parameters = [_click_parameter(parameter) for parameter in operation.parameters]
    shared: list[click.Parameter] = [
        click.Option(["--json"], is_flag=True, help="Print the result as JSON.")
    ]
    if operation.uses_store:
        shared.append(click.Option(["--store"], metavar="URL", help="The store to use."))
    return click.Command(
        name=name,
        help=operation.help,
        epilog=_epilog(operation),
        params=[*parameters, *shared],
        callback=_callback(operation),
    )


def _epilog(operation: Operation) -> str:
    """Describe the arguments, which click does not, and give an example."""
    arguments_help = [
        f"  {parameter.param.metavar or parameter.public_name.upper()}  {parameter.param.help}"
        for parameter in operation.parameters
        if parameter.positional
    ]
    arguments = "\n".join(["\b\nArguments:", *arguments_help]) + "\n\n" if arguments_help else ""
    return f"{arguments}\b\nExample:\n  {operation.example}"


def _click_parameter(parameter: Parameter) -> click.Parameter:
    kind: click.ParamType[Any] | type
    if parameter.param.instant:
        kind = InstantType()
    elif isinstance(parameter.type, tuple):
        kind = click.Choice(parameter.type)
    else:
        kind = click.Path(path_type=Path) if parameter.type is Path else parameter.type
    if parameter.positional:
        return click.Argument(
            [parameter.name],
            type=kind,
            nargs=-1 if parameter.many else 1,
            required=parameter.required,
            metavar=parameter.param.metavar,
        )
    return click.Option(
        ["--" + parameter.public_name.replace("_", "-"), parameter.name],
        type=None if parameter.type is bool else kind,
        is_flag=parameter.type is bool,
        multiple=parameter.many,
        default=parameter.default,
        show_default=parameter.default not in (None, False, ()),
        metavar=parameter.param.metavar,
        help=parameter.param.help,
    )


def _callback(operation: Operation) -> Callable[..., None]:
    @click.pass_context
    def callback(ctx: click.Context, /, *, json: bool, **given: Any) -> None:
        from ctxmgr.surfaces.terminal.command import run

        root = ctx.find_root().params
        store = given.pop("store", None) or root["store"]
        ctx.exit(
            run(
                operation,
                given,
                store=store,
                as_json=json,
                verbose=root["verbose"],
                log_json=root["log_json"],
            )
        )

    return callback


COMMANDS = build(OPERATIONS)
