"""The real opencode, Gemini CLI and pi: set up, run through the proxy, and captured.

One run each, headless, against a scripted model on loopback.
"""

import json
from pathlib import Path
from typing import Any

from tests.clients.desk import CTXMGR, Desk
from tests.clients.scripted_model import Step, scripted_model
from tests.clients.wire_rules import violations

NOWHERE = "http://127.0.0.1:9"
"""Where no registry answers."""

OPENCODE = {
    "ANTHROPIC_API_KEY": "sk-test",
    **dict.fromkeys(
        ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_SHARE"),
        "1",
    ),
    "npm_config_registry": NOWHERE,
    "npm_config_fetch_retries": "0",
}


def captured(desk: Desk, prefix: str) -> dict[str, Any]:
    """Return the only session whose id begins so."""
    rows = desk.ctxmgr("sessions")["sessions"]
    (found,) = (row for row in rows if row["session_id"].startswith(prefix))
    return dict(found)


def test_opencode(desk: Desk, programs: Path) -> None:
    """Its plugin reports prompts, calls, failures, answers and usage; `recall` works; D6, D7."""
    desk.run(str(CTXMGR), "setup", "opencode", "--store", desk.store)
    read = ("read", {"filePath": str(desk.project / "port.txt")})
    fail = ("bash", {"command": "cat missing.txt", "description": "read it"})
    recall = ("ctxmgr_recall", {"query": "port 8080"})
    steps = (Step(calls=[read, fail]), Step(calls=[recall]), Step(text="It is 8080."))
    args = ("run", "--model", "anthropic/claude-sonnet-4-5", "--format", "json", "Which port?")
    with scripted_model(*steps) as model:
        out = desk.run(
            *(str(CTXMGR), "wrap", "opencode", "--store", desk.store, "--", *args),
            **OPENCODE,
            PATH=f"{programs}:{desk.environment['PATH']}",
            ANTHROPIC_BASE_URL=model.url,
        )

    session = json.loads(out.splitlines()[0])["sessionID"]
    assert captured(desk, session)["turns"] == 1
    calls = {call["tool"]: call for call in desk.ctxmgr("calls", session)["calls"]}
    assert (calls["read"]["status"], calls["bash"]["status"]) == ("ok", "fail")
    assert "id=toolu_1_0" in json.dumps(model.requests[-1])
    assert [line for body in model.requests for line in violations(body)] == []
    assert "ctxmgr_show" in json.dumps(model.requests[0]["tools"])
    exported = desk.run(str(programs / "opencode"), "export", session, **OPENCODE)
    (desk.home / "session.json").write_text(exported, encoding="utf-8")
    recording = str(desk.home / "session.json")
    desk.run(str(CTXMGR), "import-recorded", recording, "--store", desk.store)
    (entry,) = desk.ctxmgr("timeline", session)["entries"]
    assert "Which port?" in entry["user"]
    assert (entry["model"], entry["reported"]["output"]) == ("claude-sonnet-4-5", 27)

    desk.run(str(CTXMGR), "setup", "opencode", "--remove", "--store", desk.store)
    assert not (desk.home / ".config" / "opencode" / "plugins" / "ctxmgr.js").exists()


def test_gemini(desk: Desk, programs: Path) -> None:
    """The same over its hooks; its requests pass through the proxy unchanged."""
    settings = desk.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    own = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    settings.write_text(json.dumps(own), encoding="utf-8")
    desk.run(str(CTXMGR), "setup", "gemini", "--store", desk.store)
    read = ("read_file", {"file_path": str(desk.project / "port.txt")})
    fail = ("run_shell_command", {"command": "cat missing.txt"})
    recall = ("mcp_ctxmgr_recall", {"query": "port 8080"})
    steps = (Step(calls=[read, fail]), Step(calls=[recall]), Step(text="It is 8080."))
    with scripted_model(*steps) as model:
        desk.run(
            *(str(CTXMGR), "wrap", "gemini", "--store", desk.store, "--"),
            *("-m", "gemini-2.5-pro", "--yolo", "-p", "Which port?"),
            GEMINI_API_KEY="x",
            GEMINI_CLI_TRUST_WORKSPACE="true",
            PATH=f"{programs}:{desk.environment['PATH']}",
            GOOGLE_GEMINI_BASE_URL=model.url,
        )

    (listed,) = desk.ctxmgr("sessions")["sessions"]
    calls = desk.ctxmgr("calls", listed["session_id"])["calls"]
    assert sorted((call["tool"], call["status"]) for call in calls) == [
        ("mcp_ctxmgr_recall", "ok"),
        ("read_file", "ok"),
        ("run_shell_command", "fail"),
    ]
    assert "the port is 8080" in json.dumps(model.requests[-1]["contents"][-1])
    (recording,) = desk.home.glob(".gemini/tmp/*/chats/*.jsonl")
    desk.run(str(CTXMGR), "import-recorded", str(recording), "--store", desk.store)
    (entry,) = desk.ctxmgr("timeline", listed["session_id"])["entries"]
    assert (entry["user"], entry["answer"]) == ("Which port?", "It is 8080.")
    assert (entry["model"], entry["reported"]["output"]) == ("gemini-2.5-pro", 27)

    desk.run(str(CTXMGR), "setup", "gemini", "--remove", "--store", desk.store)
    assert json.loads(settings.read_text(encoding="utf-8")) == own


def test_pi(desk: Desk, programs: Path) -> None:
    """pi has neither hooks nor MCP: it runs through the proxy, and its recording is imported."""
    read = ("read", {"path": "port.txt"})
    fail = ("bash", {"command": "cat missing.txt"})
    steps = (Step(calls=[read, fail]), Step(calls=[read]), Step(text="It is 8080."))
    with scripted_model(*steps) as model:
        desk.run(
            *(str(CTXMGR), "wrap", "pi", "--store", desk.store, "--"),
            *("--provider", "anthropic", "--model", "claude-sonnet-4-5", "-p", "Which port?"),
            ANTHROPIC_API_KEY="sk-test",
            PI_OFFLINE="1",
            PATH=f"{programs}:{desk.environment['PATH']}",
            ANTHROPIC_BASE_URL=model.url,
        )

    assert len(model.requests) == len(steps)
    assert [line for body in model.requests for line in violations(body)] == []
    assert all("ctxmgr_show" in json.dumps(body["tools"]) for body in model.requests)
    (recording,) = desk.home.glob(".pi/agent/sessions/*/*.jsonl")
    desk.run(str(CTXMGR), "import-recorded", str(recording), "--store", desk.store)
    rows = desk.ctxmgr("sessions")["sessions"]
    (imported,) = (row for row in rows if not row["session_id"].startswith("proxy-"))
    assert imported["turns"] == len(steps)
    calls = desk.ctxmgr("calls", imported["session_id"])["calls"]
    assert [call["status"] for call in calls].count("fail") == 1
