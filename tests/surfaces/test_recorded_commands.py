"""The commands on recorded sessions."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.components import ROOT

Run = Callable[..., Result]
FIXTURES = ROOT / "tests" / "messages" / "fixtures"


def test_a_recorded_session_is_imported_under_its_own_name(ctxmgr: Run, home: Path) -> None:
    """The shortest way from somebody's file to a session here."""
    store = ("--store", f"sqlite:///{home / 's.db'}", "--json")

    told = json.loads(ctxmgr("import-recorded", str(FIXTURES / "pi.jsonl"), *store).output)
    chat = json.loads(ctxmgr("get", "chat:pi-1", *store).output)

    assert told == {"session_id": "pi-1", "format": "pi", "turns": 2, "tool_calls": 1}
    assert chat["document"]["turn_count"] == 2


def test_a_recording_without_a_name_needs_one(ctxmgr: Run, home: Path) -> None:
    """A plain array of messages does not say what it is called."""
    path = str(FIXTURES / "openai.json")

    refused = ctxmgr("import-recorded", path, "--store", f"sqlite:///{home / 's.db'}")
    named = ctxmgr(
        "import-recorded", path, "--session", "s1", "--store", f"sqlite:///{home / 's.db'}"
    )

    assert refused.exit_code != 0
    assert "--session" in refused.output
    assert named.exit_code == 0


def test_a_line_that_is_wrong_is_named(ctxmgr: Run, home: Path) -> None:
    """Who is at fault, what was wrong, where to mend it."""
    broken = home / "broken.jsonl"
    broken.write_bytes((FIXTURES / "pi.jsonl").read_bytes() + b"{half\n")

    refused = ctxmgr("import-recorded", str(broken), "--store", f"sqlite:///{home / 's.db'}")

    assert refused.exit_code != 0
    assert "broken.jsonl: line 11: no JSON" in refused.output
