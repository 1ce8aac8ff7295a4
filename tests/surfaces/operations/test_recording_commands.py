"""The commands on recorded sessions."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.components import ROOT

Run = Callable[..., Result]
FIXTURES = ROOT / "tests" / "recordings" / "fixtures"


def test_a_recorded_session_is_imported_under_its_own_name(ctxmgr: Run, home: Path) -> None:
    """The simplest way to import a file needs no further options."""
    store = ("--store", f"sqlite:///{home / 's.db'}", "--json")

    result = json.loads(ctxmgr("import-recorded", str(FIXTURES / "pi.jsonl"), *store).output)
    chat = json.loads(ctxmgr("get", "chat:pi-1", *store).output)

    assert result == {
        "session_id": "pi-1",
        "format": "pi",
        "outcome": "new",
        "turns": 2,
        "tool_calls": 1,
        "captured_turns": 0,
        "system_prompt_added": False,
        "left_out": 0,
    }
    assert chat["document"]["turn_count"] == 2


def test_a_recording_without_a_name_needs_one(ctxmgr: Run, home: Path) -> None:
    """A plain array of messages has no session name."""
    path = str(FIXTURES / "openai.json")

    refused = ctxmgr("import-recorded", path, "--store", f"sqlite:///{home / 's.db'}")
    named = ctxmgr(
        "import-recorded", path, "--session", "s1", "--store", f"sqlite:///{home / 's.db'}"
    )

    assert refused.exit_code != 0
    assert "--session" in refused.output
    assert named.exit_code == 0


def test_the_error_for_an_invalid_line_names_it(ctxmgr: Run, home: Path) -> None:
    """The user learns what is wrong and where to fix it."""
    broken = home / "broken.jsonl"
    broken.write_bytes((FIXTURES / "pi.jsonl").read_bytes() + b"{half\n")

    refused = ctxmgr("import-recorded", str(broken), "--store", f"sqlite:///{home / 's.db'}")

    assert refused.exit_code != 0
    assert "broken.jsonl: line 11: invalid JSON" in refused.output


def test_cache_names_the_object_that_broke_the_prefix(ctxmgr: Run, home: Path) -> None:
    """The plain layout adds a line for every tool call before the chat, which has its price."""
    store = ("--store", f"sqlite:///{home / 's.db'}")
    ctxmgr("import-recorded", str(FIXTURES / "pi.jsonl"), *store)

    result = json.loads(ctxmgr("cache", "pi-1", "--json", *store).output)

    second = result["calls"][1]
    assert result["breaks"] == 1
    assert (second["change"], second["section"]) == ("new", "metadata_pool")
    assert second["object_id"] == "pi-1:1:toolu_1"
    assert second["cost"] > 0


def test_cache_uses_the_usage_that_the_provider_recorded(ctxmgr: Run, home: Path) -> None:
    """For an imported session the provider's numbers are authoritative."""
    store = ("--store", f"sqlite:///{home / 's.db'}")
    ctxmgr("import-recorded", str(FIXTURES / "claude-code.jsonl"), *store)

    result = json.loads(ctxmgr("cache", "cc-1", "--recorded", "--json", *store).output)

    assert (result["breaks"], result["prompt_tokens"], result["cached_tokens"]) == (0, 2468, 1200)


def test_each_error_of_cache_says_what_is_missing(ctxmgr: Run, home: Path) -> None:
    """A missing session, missing usage and an invalid number have different messages."""
    store = ("--store", f"sqlite:///{home / 's.db'}")
    ctxmgr("import-recorded", str(FIXTURES / "openhands-sdk.jsonl"), "--session", "s1", *store)

    assert "there is no session s2" in ctxmgr("cache", "s2", *store).output
    assert "no usage was recorded" in ctxmgr("cache", "s1", "--recorded", *store).output
    assert "--last must be at least 1" in ctxmgr("cache", "s1", "--last", "0", *store).output
