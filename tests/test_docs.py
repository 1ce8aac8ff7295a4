"""The documentation runs: Python blocks, commands with their output, links, the reference.

```python     executed; the blocks of one page share a namespace, and `await` is allowed
```console    lines with `$ ctxmgr …` are executed and must succeed; every word of what is shown
              below them must be printed, in order, and "…" stands for omitted output
```text       not executed
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import ctxmgr
from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.components import ROOT
from tests.python_reference import entries
from tests.reference import REFERENCE, pages

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


class Block(NamedTuple):
    language: str
    text: str
    line: int


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who follows a page in an empty folder."""
    for name in ("DATA", "STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in [variable for variable in os.environ if variable.startswith("CTXMGR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, reader: Path) -> None:
    """003-R199: a page that no longer runs is detected in the commit that broke it."""
    namespace: dict[str, Any] = {"__name__": "__main__"}

    with asyncio.Runner() as runner:
        for block in _blocks(page):
            if block.language == "python":
                _execute(block, page, namespace, runner)
            elif block.language == "console":
                for command, expected in _commands(block.text):
                    _compare(command, expected, where=f"{page.name}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_have_targets(page: Path) -> None:
    """A reader who follows a link finds a page, and the heading it names."""
    broken = [target for target in LINK.findall(_prose(page)) if not _leads(page, target)]

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_import_the_core_from_the_package_alone(page: Path) -> None:
    """A module of the core may move or be renamed; the public names stay."""
    code = "".join(block.text for block in _blocks(page))

    assert re.findall(r"^(?:from|import) ctxmgr\.core.*$", code, re.MULTILINE) == []


def test_the_command_reference_is_up_to_date() -> None:
    """It is derived from the operations; `make docs` writes it again."""
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}

    assert written == pages()


def test_the_python_reference_describes_every_public_name() -> None:
    """A name that is missing there, or has no docstring, is public by accident."""
    described = [entry for group in entries().values() for entry in group]

    assert sorted(entry.name for entry in described) == sorted(ctxmgr.__all__)
    assert [
        f"{entry.name}.{member.name}" if member is not entry else entry.name
        for entry in described
        for member in (entry, *entry.methods)
        if not member.text
    ] == []


def test_a_page_with_wrong_output_is_detected(reader: Path) -> None:
    """A test that cannot fail would accept any page."""
    page = reader / "page.md"
    page.write_text("```python\nassert 1 == 2\n```\n", encoding="utf-8")

    with pytest.raises(AssertionError):
        test_a_page_does_what_it_says(page, reader)
    with pytest.raises(AssertionError, match="nonsense"):
        _compare("ctxmgr --version", "nonsense", where="here")


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)


def _execute(block: Block, page: Path, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    code = _compiled("\n" * block.line + block.text, str(page))
    answer = eval(code, namespace)
    if inspect.iscoroutine(answer):
        runner.run(answer)


def _compiled(source: str, name: str) -> CodeType:
    code: CodeType = compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each ctxmgr command with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if command.startswith("ctxmgr "):
            yield command, expected


def _compare(command: str, expected: str, *, where: str) -> None:
    result = CliRunner().invoke(COMMANDS, shlex.split(command, comments=True)[1:])
    assert result.exit_code == 0, f"{where}: {command}: {result.output}"
    printed, position = result.output, 0
    for word in expected.replace("…", " ").split():
        found_at = printed.find(word, position)
        assert found_at >= 0, f"{where}: {command} does not print {word!r} there:\n{printed}"
        position = found_at + len(word)


def _prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def _leads(page: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return True
    path, _, anchor = target.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or anchor in {_anchor(heading) for heading in HEADING.findall(_prose(target))}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
