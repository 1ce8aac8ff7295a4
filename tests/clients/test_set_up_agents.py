"""Real coding agents, headless, against a scripted model: setup, hooks and MCP server together.

Each client has a home folder of its own, and its traffic stays on loopback.
"""

import json
from pathlib import Path

from tests.clients.desk import CTXMGR, Desk
from tests.clients.scripted_model import ScriptedModel, Step, scripted_model


def tool_results(model: ScriptedModel) -> str:
    """All that the model was sent last, as text."""
    return json.dumps(model.requests[-1])


def test_claude_code(desk: Desk, programs: Path) -> None:
    """Prompt, calls, failure and answer are a turn; the next session is told, and recalls them."""
    desk.run(str(CTXMGR), "setup", "claude-code", "--store", desk.store)
    allowed = "Bash,Read,mcp__ctxmgr__recall"
    claude = [str(programs / "claude"), "-p", "--output-format", "json", "--allowedTools", allowed]
    read = ("Read", {"file_path": str(desk.project / "port.txt")})
    fail = ("Bash", {"command": "cat missing.txt", "description": "read it"})
    key = {"ANTHROPIC_API_KEY": "sk-test"}
    with scripted_model(Step(calls=[read]), Step(calls=[fail]), Step(text="It is 8080.")) as model:
        answer = desk.run(*claude, "--", "Which port?", **key, ANTHROPIC_BASE_URL=model.url)
    session = json.loads(answer)["session_id"]

    assert json.loads(answer)["result"] == "It is 8080."
    (listed,) = desk.ctxmgr("sessions")["sessions"]
    assert (listed["session_id"], listed["turns"]) == (session, 1)
    calls = {call["tool"]: call for call in desk.ctxmgr("calls", session)["calls"]}
    assert (calls["Read"]["status"], calls["Bash"]["status"]) == ("ok", "fail")
    (entry,) = desk.ctxmgr("timeline", session)["entries"]
    assert entry["reported"] == {
        "input": 60, "cached": 0, "written": 0, "output": 27, "written_1h": 0,
    }  # fmt: skip
    assert entry["model"].startswith("claude-")
    read_text = desk.ctxmgr("show", "toolu_1_0", "--session", session)
    assert read_text["content"] == "the port is 8080\n"

    recall = ("mcp__ctxmgr__recall", {"query": "port 8080"})
    with scripted_model(Step(calls=[recall]), Step(text="Yes.")) as model:
        desk.run(*claude, "--", "And now?", **key, ANTHROPIC_BASE_URL=model.url)
    sent = tool_results(model)
    assert "asked: Which port?" in sent
    assert "id=toolu_1_0" in sent

    desk.run(str(CTXMGR), "setup", "claude-code", "--remove", "--store", desk.store)
    assert not (desk.home / ".claude" / "settings.json").exists()


CODEX = """model = "gpt-5-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""


def test_codex(desk: Desk, programs: Path) -> None:
    """The same JSON in hooks; whether a command failed is known from its output alone."""
    codex = [str(programs / "codex"), "exec", "--skip-git-repo-check"]
    codex += ["--dangerously-bypass-hook-trust"]
    config = desk.home / ".codex" / "config.toml"
    config.parent.mkdir()
    cat = ("exec_command", {"cmd": "cat port.txt"})
    fail = ("exec_command", {"cmd": "cat missing.txt"})
    with scripted_model(Step(calls=[cat]), Step(calls=[fail]), Step(text="It is 8080.")) as model:
        config.write_text(CODEX.format(url=model.url), encoding="utf-8")
        desk.run(str(CTXMGR), "setup", "codex", "--store", desk.store)
        desk.run(*codex, "Which port?", SCRIPTED_KEY="x")

    (listed,) = desk.ctxmgr("sessions")["sessions"]
    assert listed["turns"] == 1
    calls = desk.ctxmgr("calls", listed["session_id"])["calls"]
    assert [call["status"] for call in calls] == ["ok", "fail"]
    (entry,) = desk.ctxmgr("timeline", listed["session_id"])["entries"]
    assert (entry["reported"]["cached"], entry["reported"]["output"]) == (300, 27)
    assert entry["model"] == "gpt-5-codex"
    shown = desk.ctxmgr("search", "port", "--project")
    assert "the port is 8080" in shown["text"]

    desk.run(str(CTXMGR), "setup", "codex", "--remove", "--store", desk.store)
    assert config.read_text(encoding="utf-8") == CODEX.format(url=model.url)
