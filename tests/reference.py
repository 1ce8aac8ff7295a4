"""Write docs/reference and the pinned help texts: ``python -m tests.reference``.

Commands are derived from the catalogue, the Python page from the public names. ``test_docs`` and
``test_help`` fail when a file differs, so that a changed option or signature is seen in the commit
that changes it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click

from ctxmgr.surfaces.error_answers import ANSWERS
from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests import python_reference
from tests.components import ROOT

REFERENCE = ROOT / "docs" / "reference"
HELP = ROOT / "tests" / "surfaces" / "terminal" / "help"
WIDTH = 90


@cache
def help_texts() -> Mapping[str, str]:
    """Return the help text of every command and group by its full name."""
    settings = {**COMMANDS.context_settings, "terminal_width": WIDTH}
    return dict(_walk(click.Context(COMMANDS, info_name="ctxmgr", **settings)))


@cache
def pages() -> Mapping[str, str]:
    """Return the pages of docs/reference by file name."""
    texts = help_texts()
    commands = {name: text for name, text in texts.items() if name != "ctxmgr"}
    own = {f"{_slug(name)}.md": _page(name, text) for name, text in commands.items()}
    index = _index(texts["ctxmgr"], commands)
    return {"README.md": index, "python.md": python_reference.page(), **own}


def write() -> None:
    """Update the files, and delete those of removed commands."""
    _replace(REFERENCE, pages(), "*.md")
    _replace(HELP, {f"{_slug(name)}.txt": text for name, text in help_texts().items()}, "*.txt")


def _walk(context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, context.command.get_help(context) + "\n"
    if isinstance(context.command, click.Group):
        for name, command in sorted(context.command.commands.items()):
            if command.hidden:
                continue
            yield from _walk(command.context_class(command, parent=context, info_name=name))


def _slug(name: str) -> str:
    return name.removeprefix("ctxmgr ").replace(" ", "-")


def _page(name: str, text: str) -> str:
    return f"# {name}\n\n```text\n{text}```\n\nSee also: [all commands](README.md).\n"


def _index(text: str, commands: dict[str, str]) -> str:
    links = "\n".join(f"- [{name}]({_slug(name)}.md)" for name in commands)
    exits = "\n".join(
        f"| {answer.exit_code} | `{code}` | {answer.fault} |" for code, answer in ANSWERS.items()
    )
    return _INDEX.format(text=text, links=links, exits=exits)


_INDEX = """# Commands

See also: [the Python reference](python.md).

These pages are written by `make docs` from the operations that ctxmgr declares.

```text
{text}```

{links}

## Exit codes

Success is 0.
A command that finds a problem (`verify` a fault, `bench` a missed target) exits with 1.
An interrupted command exits with 130, a terminated one with 143.
Every error has a code, which `--json` prints too:

| exit | code | what it says |
|---|---|---|
{exits}

## Shell completion

[`ctxmgr completion`](completion.md) prints the script for bash, zsh or fish:

```text
ctxmgr completion bash >> ~/.bash_completion                       # once
ctxmgr completion fish > ~/.config/fish/completions/ctxmgr.fish    # once
eval "$(ctxmgr completion zsh)"                                    # in ~/.zshrc
```
"""


def _replace(folder: Path, files: dict[str, str], pattern: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(pattern):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
