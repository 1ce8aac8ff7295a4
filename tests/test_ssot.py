"""docs/ssot.md and docs/glossary.md agree with the code."""

import re
import tomllib
from collections.abc import Iterator

from ctxmgr.core.objects.envelope import OBJECT_KINDS
from ctxmgr.core.objects.hashes import VERSION_HASHES
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.tracking.trackers import TrackerState
from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.components import ROOT

SSOT = (ROOT / "docs" / "ssot.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
MARKS = ("Design change", "Implementation alignment", "Implementation divergence")
RULE = re.compile(r"(?:003-[AR]\d+|PG-\d+|D\d+)(?:, (?:003-[AR]\d+|PG-\d+))*")
COMMAND = re.compile(r"`ctxmgr ([a-z]+)[^`]*`")
TERMS = (
    "object",
    "content object",
    "infrastructure object",
    "sourced",
    "unsourced",
    "source binding",
    "client",
    "tracker",
    "orphaned",
    "discovery stub",
    "canonical path",
    "agent-visible path",
    "mount mapping",
    "session",
    "harness",
)


def test_every_deviation_is_marked_and_names_its_rule() -> None:
    """A reader who knows the source design sees where the code differs, and how (003-R200)."""
    marked = {mark: list(rows(f"{mark}s")) for mark in MARKS}

    assert all(f"**{mark}**" in SSOT for mark in MARKS)
    assert all(marked.values())
    for row in (row for rows_of_mark in marked.values() for row in rows_of_mark):
        assert RULE.fullmatch(row[0]), row


def test_every_resolution_of_an_ambiguity_is_listed() -> None:
    """The page says how each open question of the source design was decided (003-R200)."""
    listed = {rule for mark in MARKS for row in rows(f"{mark}s") for rule in row[0].split(", ")}

    assert {f"003-A{number:02}" for number in range(1, 41)} <= listed


def test_the_status_agrees_with_the_commands() -> None:
    """Shipped commands exist, and missing ones do not (003-R201)."""
    for part, state in rows("Status"):
        missing = "not yet" in state and not state.startswith("shipped")
        for name in COMMAND.findall(part):
            assert (name in COMMANDS.commands) is not missing, (part, name)


def test_the_status_agrees_with_the_code() -> None:
    """Parts that are not there yet have no module, and those that are can be found (003-R201)."""
    modules = {
        path.stem
        for path in (ROOT / "ctxmgr").rglob("*")
        if "__" not in path.name and path.parent.name != "bench"
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    states = dict(rows("Status"))

    missing = [part for part, state in states.items() if not state.startswith("shipped")]
    assert missing
    for part in missing:
        assert not {name.replace(" ", "_") for name in part.split(", ")} & modules, part
    for folder in re.findall(r"`(\w+/)`", "".join(states)):
        assert (ROOT / folder).is_dir(), folder
    assert set(re.findall(r"extra `(\w+)`", "".join(states.values()))) <= extras.keys()


def test_what_is_uncertain_is_written_down() -> None:
    """003-R202: each point says what is known, and what is not tested."""
    section = SSOT.partition("\n## Known uncertainties\n")[2].partition("\n## ")[0]
    points = [line for line in section.splitlines() if line]

    assert points
    assert all(point.startswith("- ") for point in points)
    assert all(re.search(r"\b(?:not|un\w+)\b", point) for point in points)


def test_the_glossary_has_the_terms_of_the_design_and_the_code() -> None:
    """One word, one meaning, in code and documents alike (003-R196)."""
    defined = {word.strip() for row in glossary() for word in row[0].split(",")}

    assert set(TERMS) <= defined
    assert {name.replace("_", " ") for name in (*SETS, "identity_hash", *VERSION_HASHES)} <= defined
    assert TrackerState.ORPHANED in defined
    everything = GLOSSARY.replace("tool call", "toolcall").replace("system prompt", "system_prompt")
    assert all(kind in everything for kind in OBJECT_KINDS)


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table under a heading."""
    section = SSOT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    yield from _cells(section)


def glossary() -> Iterator[list[str]]:
    yield from _cells(GLOSSARY)


def _cells(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]
