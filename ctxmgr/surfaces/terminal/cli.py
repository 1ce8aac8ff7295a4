"""The command line, derived from the catalogue. Prints help; ``command`` runs operations.

Only click is imported before a command runs, so that ``--help`` and completion answer at once.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from ctxmgr import __version__
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.arguments import read_instant
from ctxmgr.surfaces.catalogue.core import CORE_OPERATIONS
from ctxmgr.surfaces.catalogue.groups import GROUPS, LATE_COMMANDS, SECTIONS
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


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class CommandsOnDemand(MutableMapping[str, click.Command]):
    """Commands by name, each built when it is first looked up: a process runs one of them."""

    def __init__(self, makers: Mapping[str, Callable[[], click.Command]]) -> None:
        self._makers = dict(makers)
        self._built: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._built:
            self._built[name] = self._makers[name]()
        return self._built[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._makers[name] = lambda: command
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._built.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class SectionedGroup(click.Group):
    """A group that lists its commands under headings, and all others last."""

    def __init__(self, *, sections: Mapping[str, tuple[str, ...]] = _NONE, **settings: Any) -> None:
        super().__init__(**settings)
        self.sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        listed = {name for section in self.sections.values() for name in section}
        rest = tuple(name for name in names if name not in listed)
        width = max(map(len, names))
        for title, section in {**self.sections, "Commands": rest}.items():
            rows = [
                (name.ljust(width), _summary(self.commands[name]))
                for name in section
                if name in names
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class RootGroup(SectionedGroup):
    """The whole command line; with --json its usage errors are JSON, too."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        as_json = "--json" in args
        try:
            context = super().make_context(info_name, args, *more, **extra)
        except click.UsageError as error:
            raise _JsonUsageError.of(error) if as_json else error  # noqa: B904
        context.meta[_AS_JSON] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _JsonUsageError.of(error) if ctx.meta[_AS_JSON] else error  # noqa: B904


_AS_JSON: Final = "ctxmgr.json"


class _JsonUsageError(click.ClickException):
    exit_code = 2

    @classmethod
    def of(cls, error: click.UsageError) -> click.ClickException:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            return error
        return cls(error.format_message())

    def show(self, file: Any = None) -> None:
        from json import dumps

        body = {
            "code": "incorrect",
            "fault": "invalid request",
            "message": self.message,
            "next": "",
        }
        click.echo(dumps({"error": body}, indent=2, ensure_ascii=False), file=file, err=True)


def _summary(command: click.Command) -> str:
    return (command.help or "").partition("\n")[0].removesuffix(".")


def build(
    operations: tuple[Operation, ...],
    *,
    groups: Mapping[str, str] = _NONE,
    sections: Mapping[str, tuple[str, ...]] = _NONE,
    more: Mapping[str, Callable[[], tuple[Operation, ...]]] = _NONE,
) -> click.Group:
    """Build the command tree; ``groups`` are the help texts of the groups.

    ``more`` are the first words of further commands, with what loads their operations.
    """
    listed: dict[str, Callable[[], tuple[Operation, ...]]] = {
        **{operation.command[0]: lambda: operations for operation in operations},
        **more,
    }
    # Version 0.1 had the commands of some groups without their group.
    former = {
        operation.name: partial(_command, operation, operation.name, hidden=True)
        for operation in operations
        if operation.group is not None
    }
    trees = {word: partial(_tree, word, load, groups.get(word)) for word, load in listed.items()}
    return RootGroup(
        sections=sections,
        name="ctxmgr",
        help="Decide, turn by turn, what an agent's model sees, and keep every version.",
        params=_root_options(),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        commands=CommandsOnDemand({**former, **trees}),
    )


def _tree(
    word: str, load: Callable[[], tuple[Operation, ...]], help_text: str | None
) -> click.Command:
    """Build what a first word names: a command, or a group of them."""
    operations = [operation for operation in load() if operation.command[0] == word]
    alone = [operation for operation in operations if len(operation.command) == 1]
    below = {
        operation.command[1]: partial(_command, operation, operation.command[1])
        for operation in operations
        if len(operation.command) > 1
    }
    if not below:
        return _command(alone[0], word)
    group = SectionedGroup(name=word, help=help_text, commands=CommandsOnDemand(below))
    for operation in alone:
        _run_alone(group, operation)
    return group


def _run_alone(group: click.Group, operation: Operation) -> None:
    """Let a group run an operation when it is called without a command."""
    alone = _command(operation, operation.name)
    assert not any(isinstance(parameter, click.Argument) for parameter in alone.params)
    group.invoke_without_command, group.no_args_is_help = True, False
    group.params, group.help, group.epilog = alone.params, alone.help, alone.epilog
    group.callback = alone.callback


def _root_options() -> list[click.Parameter]:
    return [
        click.Option(["--store"], metavar="URL", help="The store; overrides the settings."),
        click.Option(["--json"], is_flag=True, help="Print the result as JSON."),
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


def _command(operation: Operation, name: str, *, hidden: bool = False) -> click.Command:
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
        hidden=hidden,
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
        # click takes an argument with any default, None included, for optional.
        is_defaulted = not (parameter.required or parameter.many)
        default = {"default": parameter.default} if is_defaulted else {}
        return click.Argument(
            [parameter.name],
            type=kind,
            nargs=-1 if parameter.many else 1,
            required=parameter.required,
            metavar=parameter.param.metavar,
            **default,
        )
    names = (parameter.public_name, parameter.param.former)
    return click.Option(
        [*("--" + name.replace("_", "-") for name in names if name), parameter.name],
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
    def callback(ctx: click.Context, /, **given: Any) -> None:
        from ctxmgr.surfaces.terminal.command import run

        if ctx.invoked_subcommand is not None:
            return
        shared = _shared_options(ctx)
        ctx.exit(
            run(
                operation,
                {name: value for name, value in given.items() if name not in shared},
                store=shared["store"],
                as_json=shared["json"],
                verbose=shared["verbose"],
                log_json=shared["log_json"],
            )
        )

    return callback


def _shared_options(ctx: click.Context | None) -> dict[str, Any]:
    """Return the options that may stand before or after the command; the last one given counts."""
    if ctx is None:
        return {}
    given = {name: ctx.params[name] for name in _SHARED if ctx.params.get(name)}
    return {**_SHARED, **_shared_options(ctx.parent), **given}


_SHARED: Final[Mapping[str, Any]] = MappingProxyType(
    {"json": False, "store": None, "verbose": 0, "log_json": False}
)
"""Options of every command, and their defaults."""


COMMANDS = build(CORE_OPERATIONS, groups=GROUPS, sections=SECTIONS, more=LATE_COMMANDS)
