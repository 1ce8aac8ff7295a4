"""The name to install: every instruction in docs, messages and code names our distribution."""

import re
import tomllib
from collections.abc import Iterator

from ctxmgr.errors import DISTRIBUTION
from tests.components import ROOT

INSTALLING = re.compile(
    r"(?:pip3?\s+(?:download|install)|pipx\s+(?:install|run)|uvx|uv\s+(?:add|pip\s+install)"
    r"|uv\s+tool\s+(?:install|run)|poetry\s+add)\s+(?P<rest>[^\n`]*)"
)
"""An instruction to install something, in a document, a message or a comment."""

OURS = re.compile(r"ctxmgr[a-z-]*")
EXTRA = re.compile(r"(?P<name>[a-z][\w-]*)\[(?P<extra>[a-z]+(?:-[a-z]+)*)\]")

TEXTS = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")),
    *(ROOT / ".ci").iterdir(),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").iterdir(),
    *(ROOT / "ctxmgr").rglob("*.py"),
    *(ROOT / "ctxmgr").rglob("*.js"),
    *(ROOT / "ctxmgr").rglob("*.html"),
)


def test_the_distribution_is_the_one_of_the_project() -> None:
    """Messages name what the build is called."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["name"] == DISTRIBUTION


def test_no_text_tells_anyone_to_install_another_distribution() -> None:
    """`ctxmgr` on PyPI is a stranger's package, which would replace ours."""
    named = list(_names())

    assert [f"{where}: {name}" for where, name in named if name != DISTRIBUTION] == []
    assert len(named) > 3, "the instructions are not found any more"


def test_an_instruction_for_another_name_is_found() -> None:
    """A pattern that finds nothing would prove nothing."""
    for text in (
        "pip install ctxmgr",
        "pip install -U 'ctxmgr[serve]'",
        "uvx ctxmgr demo",
        "uvx --from ctxmgr ctxmgr-agent",
        "pipx install ctxmgr",
        "needs ctxmgr[mcp]",
    ):
        assert DISTRIBUTION not in list(_named(text)), text
        assert list(_named(text)), text


def _names() -> Iterator[tuple[str, str]]:
    for path in TEXTS:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            text = text.replace("{DISTRIBUTION}", DISTRIBUTION)
            for name in _named(text):
                yield str(path.relative_to(ROOT)), name


def _named(text: str) -> Iterator[str]:
    """Yield each of our names that a text says to install: the first one of an instruction."""
    for match in INSTALLING.finditer(text):
        ours = OURS.search(match["rest"])
        if ours is not None:
            yield ours[0]
    for match in EXTRA.finditer(text):
        if OURS.fullmatch(match["name"]):
            yield match["name"]
