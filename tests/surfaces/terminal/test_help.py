"""The help texts."""

import subprocess
import sys
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from ctxmgr.surfaces.catalogue.groups import GROUPS, SECTIONS
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.operation import Operation, Param
from ctxmgr.surfaces.terminal.cli import COMMANDS, SectionedGroup, build
from tests.reference import HELP, help_texts

HEAVY = (
    *("apsw", "asyncio", "httpx", "mcp", "pydantic", "pydantic_settings", "rich"),
    *("starlette", "uvicorn"),
    *("ctxmgr.app", "ctxmgr.core.context.assembly", "ctxmgr.core.secrets.masking"),
)


@pytest.mark.parametrize("name", sorted(help_texts()))
def test_help_texts_equal_the_pinned_ones(name: str) -> None:
    """A changed option is visible here and in the reference (`make docs` rewrites both)."""
    pinned = HELP / f"{name.removeprefix('ctxmgr ').replace(' ', '-')}.txt"

    assert help_texts()[name] == pinned.read_text(encoding="utf-8")


def test_no_pinned_help_text_is_left_of_a_removed_command() -> None:
    """A pinned text without a command would be misleading."""
    names = {name.removeprefix("ctxmgr ").replace(" ", "-") for name in help_texts()}

    assert {path.stem for path in HELP.glob("*.txt")} == names


def test_every_command_shows_an_example() -> None:
    """People copy the example before they read the options."""
    groups = {"ctxmgr", *(f"ctxmgr {name}" for name in GROUPS)}
    commands = help_texts().keys() - groups

    assert {name for name in commands if f"Example:\n    {name}" in help_texts()[name]} == commands


def test_every_command_is_in_a_section() -> None:
    """A list of forty names in alphabetical order does not say where to begin."""
    commands = {name for name, command in COMMANDS.commands.items() if not command.hidden}

    assert {name for section in SECTIONS.values() for name in section} == commands
    assert "\nCommands:" not in help_texts()["ctxmgr"]


def test_every_summary_fits_80_columns() -> None:
    """A summary that is cut does not say what the command does."""
    for group in (COMMANDS, *(COMMANDS.commands[name] for name in GROUPS)):
        assert isinstance(group, SectionedGroup)
        context = click.Context(group, info_name="ctxmgr", terminal_width=80)
        formatter = context.make_formatter()
        group.format_commands(context, formatter)
        names = [line.split()[0] for line in formatter.getvalue().splitlines() if line[:2] == "  "]

        assert set(names) <= set(group.commands), names


def test_a_group_without_a_command_of_its_own_is_described() -> None:
    """Its line in the list of commands would be empty."""
    own = {operation.name for operation in OPERATIONS}
    groups = {operation.command[0] for operation in OPERATIONS if len(operation.command) > 1}

    assert groups - own == set(GROUPS)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("things",), "listed 3"),
        (("things", "--limit", "4"), "listed 4"),
        (("things", "--json"), '"listed 3"'),
        (("things", "delete", "x"), "deleted x"),
        (("things", "--json", "delete", "x"), '"deleted x"'),
        (("--json", "things", "delete", "x"), '"deleted x"'),
        (("store", "count"), "counted"),
        (("count",), "counted"),
    ],
)
def test_an_operation_may_list_and_be_a_group(words: tuple[str, ...], printed: str) -> None:
    """`sessions` lists, and `sessions delete` is below it; no other code knows either."""

    async def things(_app: object, *, limit: Annotated[int, Param("How many.")] = 3) -> str:
        """List things."""
        return f"listed {limit}"

    async def delete(_app: object, name: Annotated[str, Param("Which one.")]) -> str:
        """Delete a thing."""
        return f"deleted {name}"

    async def count(_app: object) -> str:
        """Count."""
        return "counted"

    commands = build(
        (
            Operation(run=things, name="things", writes=False, example=""),
            Operation(run=delete, name="things delete", writes=True, example=""),
            Operation(run=count, name="count", group="store", writes=False, example=""),
        ),
        groups={"store": "The store."},
    )
    result = CliRunner().invoke(commands, words)

    assert (result.exit_code, result.stdout.strip()) == (0, printed), result.output
    assert [name for name, command in commands.commands.items() if command.hidden] == ["count"]


def test_help_imports_nothing_that_only_a_command_needs() -> None:
    """Help and completion are fast only if drivers and settings stay unloaded."""
    script = (
        "import sys\nfrom ctxmgr.surfaces.terminal.cli import COMMANDS\n"
        "COMMANDS.main(['--help'], standalone_mode=False)\n"
        f"sys.exit(', '.join(set({HEAVY!r}) & set(sys.modules)) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.stderr == b""


def test_the_command_line_has_every_operation() -> None:
    """What is declared late is there all the same, under the same words."""
    late, eager = _words(COMMANDS), _words(build(OPERATIONS))

    assert late == eager


def _words(group: click.Group, before: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = {(*before, name) for name in group.commands}
    below = [each for each in group.commands.items() if isinstance(each[1], click.Group)]
    return found.union(*(_words(each, (*before, name)) for name, each in below))


def test_a_command_of_the_core_imports_no_layer() -> None:
    """Every command waits for its imports, and the layers have half of all types."""
    script = (
        "import sys\nfrom ctxmgr.surfaces.terminal.cli import COMMANDS\n"
        "COMMANDS.main(['sessions', '--help'], standalone_mode=False)\n"
        "sys.exit(', '.join(m for m in sys.modules if '.operations.layers' in m) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.stderr == b""


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(operation, id=operation.name)
        for operation in OPERATIONS
        if any(each.positional and not each.required for each in operation.parameters)
    ],
)
def test_an_argument_that_is_left_out_has_its_default(operation: Operation) -> None:
    """The signature says it once, for all surfaces."""
    command: click.Command = build(OPERATIONS)
    for word in operation.command:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    required = [each for each in operation.parameters if each.positional and each.required]

    given = command.make_context("ctxmgr", ["1"] * len(required), resilient_parsing=True).params

    optional = [each for each in operation.parameters if each.positional and not each.required]
    assert {each.name: given[each.name] for each in optional} == {
        each.name: each.default for each in optional
    }
