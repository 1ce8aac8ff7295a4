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
    (entry,) = desk.ctxmgr("timeline", session)["entries"]
    assert "Which port?" in entry["user"]
    assert (entry["model"], entry["reported"]["output"]) == ("claude-sonnet-4-5", 27)

    desk.run(str(CTXMGR), "setup", "opencode", "--remove", "--store", desk.store)
    assert not (desk.home / ".config" / "opencode" / "plugins" / "ctxmgr.js").exists()
