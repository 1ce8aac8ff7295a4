"""`ctxmgr setup`: what is written into the settings of coding agents, and removed again."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr import Incorrect, Unavailable
from ctxmgr.integrations.setup.clients import JsonFile
from ctxmgr.integrations.setup.installer import apply_setup, plan_setup
from ctxmgr.integrations.setup.jsonc import JsonText
from ctxmgr.surfaces.terminal.cli import COMMANDS

Setup = Callable[..., Result]

FILES = {
    "claude-code": [".claude/settings.json", ".claude.json"],
    "codex": [".codex/hooks.json", ".codex/config.toml"],
    "gemini": [".gemini/settings.json"],
    "opencode": [".config/opencode/opencode.json", ".config/opencode/plugins/ctxmgr.js"],
    "cursor": [".cursor/mcp.json"],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without the machine's own settings."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def setup(home: Path) -> Setup:
    def run(*words: str) -> Result:
        return CliRunner().invoke(COMMANDS, ["setup", "--store", f"{home}/my agent.db", *words])

    return run


def read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else JsonText.parse(text).root.value


@pytest.mark.parametrize("client", FILES)
def test_what_setup_adds_is_removed_without_a_trace(home: Path, setup: Setup, client: str) -> None:
    """A second setup changes nothing, and the files are gone if they were not there before."""
    shown = setup(client, "--print")
    assert (shown.exit_code, list(home.rglob("*.json"))) == (0, [])

    added = setup(client)

    assert added.stdout == shown.stdout
    text = "".join((home / name).read_text(encoding="utf-8") for name in FILES[client])
    assert f"sqlite:///{home}/my%20agent.db" in text
    assert "/bin/ctxmgr" in text
    assert setup(client).stdout.startswith("nothing to change")
    removed = setup(client, "--remove")
    assert removed.exit_code == 0
    assert [name for name in FILES[client] if (home / name).exists()] == []


def test_a_plugin_of_a_forgotten_setup_is_removed(home: Path, setup: Setup) -> None:
    """The state folder was deleted in between: the file says itself that it is ours."""
    plugin = home / FILES["opencode"][1]
    setup("opencode")
    (home / "state" / "ctxmgr" / "setup" / "opencode.json").unlink()
    setup("opencode")

    assert setup("opencode", "--remove").exit_code == 0
    assert not plugin.exists()


CLAUDE = """{
  // mine
  "model": "opus", // the large one
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "say done"}]}
    ]
  },
  "unknown": [1, 2]
}
"""

CODEX = """# mine
model = "gpt"   # spaces stay

[mcp_servers.other]
command = "x"
"""


def test_what_is_there_stays(home: Path, setup: Setup) -> None:
    """Comments, order, spacing, unknown keys and other people's hooks."""
    claude, codex = home / ".claude" / "settings.json", home / ".codex" / "config.toml"
    for path, text in ((claude, CLAUDE), (codex, CODEX)):
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        path.chmod(0o640)

    setup("claude-code")
    setup("codex")

    commands = [hook["hooks"][0]["command"] for hook in read(claude)["hooks"]["Stop"]]
    assert commands[0] == "say done"
    assert commands[1].endswith(f" hook --store sqlite:///{home}/my%20agent.db")
    assert set(read(codex)["mcp_servers"]) == {"other", "ctxmgr"}
    assert claude.stat().st_mode & 0o777 == 0o640
    setup("claude-code", "--remove")
    setup("codex", "--remove")
    assert claude.read_text(encoding="utf-8") == CLAUDE
    assert codex.read_text(encoding="utf-8") == CODEX


def test_edits_after_the_setup_survive_its_removal(home: Path, setup: Setup) -> None:
    """A person moves lines around and adds others; only what was added goes."""
    setup("claude-code")
    path = home / ".claude" / "settings.json"
    value = read(path)
    value["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "say done"}]})
    value["hooks"] = dict(reversed(value["hooks"].items()))
    value["model"] = "opus"
    path.write_text(json.dumps(value, indent=4), encoding="utf-8")

    setup("claude-code", "--remove")

    stop = [{"hooks": [{"type": "command", "command": "say done"}]}]
    assert read(path) == {"hooks": {"Stop": stop}, "model": "opus"}


def test_hooks_that_run_ctxmgr_already_are_not_doubled(home: Path, setup: Setup) -> None:
    """Every event would be stored twice."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    own = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ctxmgr hook"}]}]}}
    path.write_text(json.dumps(own), encoding="utf-8")

    ran = setup("claude-code")

    assert "note: Stop runs `ctxmgr hook` in another way" in ran.stdout
    assert len(read(path)["hooks"]["Stop"]) == 1
    setup("claude-code", "--remove")
    assert read(path) == own


def test_what_was_there_before_is_not_removed(home: Path, setup: Setup) -> None:
    """A person may have registered the same by hand."""
    setup("gemini")
    path = home / ".gemini" / "settings.json"
    text = path.read_text(encoding="utf-8")
    (home / "state" / "ctxmgr" / "setup" / "gemini.json").unlink()

    assert setup("gemini").stdout.startswith("nothing to change")
    setup("gemini", "--remove")

    assert path.read_text(encoding="utf-8") == text


def test_another_store_replaces_the_hooks_of_the_last_setup(home: Path, setup: Setup) -> None:
    """Hooks and server would use two stores, and the removal would leave the old hooks."""
    setup("claude-code")
    path = home / ".claude.json"
    server = read(path)
    server["mcpServers"]["ctxmgr"]["env"] = {"MINE": "1"}
    path.write_text(json.dumps(server), encoding="utf-8")

    setup("claude-code", "--store", f"{home}/other.db")

    texts = {name: (home / name).read_text(encoding="utf-8") for name in FILES["claude-code"]}
    assert all("other.db" in text and "agent.db" not in text for text in texts.values())
    assert read(path)["mcpServers"]["ctxmgr"]["env"] == {"MINE": "1"}
    setup("claude-code", "--remove")
    assert [name for name in texts if (home / name).exists()] == []


def test_settings_in_two_folders_are_removed_one_by_one(
    home: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal in one folder does not forget what was added to the other."""
    setup("claude-code")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "work"))
    assert "was not set up" in setup("claude-code", "--remove").stderr
    setup("claude-code")
    assert setup("claude-code", "--remove").exit_code == 0
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "")
    assert setup("claude-code").stdout.startswith("nothing to change")

    setup("claude-code", "--remove")

    assert [name for name in FILES["claude-code"] if (home / name).exists()] == []


def test_a_value_that_a_person_has_changed_stays(home: Path, setup: Setup) -> None:
    """The address is that of their own gateway now."""
    setup("claude-code", "--proxy", "http://127.0.0.1:9000")
    path = home / ".claude" / "settings.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("127.0.0.1:9000", "gateway"), encoding="utf-8")

    setup("claude-code", "--remove")

    assert read(path) == {"env": {"ANTHROPIC_BASE_URL": "http://gateway"}}


def test_a_table_keeps_what_a_person_added_to_it(home: Path, setup: Setup) -> None:
    """Other keys, other tables of the server, and comments about what follows."""
    setup("codex")
    path = home / ".codex" / "config.toml"
    more = "startup_timeout_sec = 30\n\n# about the next one\n[mcp_servers.other]\ncommand = 'x'\n"
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")

    setup("codex", "--store", f"{home}/other.db")

    assert more in path.read_text(encoding="utf-8")
    assert "other.db" in read(path)["mcp_servers"]["ctxmgr"]["args"][2]
    setup("codex", "--remove")
    kept = path.read_text(encoding="utf-8")
    assert kept.strip() == "# about the next one\n[mcp_servers.other]\ncommand = 'x'"


def test_a_file_that_changes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Clients write their own settings while they run."""
    path, receipt = tmp_path / "mcp.json", tmp_path / "receipt.json"
    path.write_text("{}", encoding="utf-8")
    changes = plan_setup([JsonFile(path=PurePosixPath(path), values={("a",): "1"})], receipt)
    path.write_text('{"b": 2}', encoding="utf-8")

    with pytest.raises(Unavailable, match="run this again"):
        apply_setup(changes, receipt)

    assert path.read_text(encoding="utf-8") == '{"b": 2}'
    assert [file.name for file in tmp_path.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    ("client", "name", "text", "reason"),
    [
        ("claude-code", ".claude/settings.json", '{"a": 1,,}', "line 1: "),
        ("claude-code", ".claude/settings.json", "[]", "must contain a JSON object"),
        ("claude-code", ".claude/settings.json", '{"hooks": 5}', "hooks must be an object"),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": 5}}', "must be an array"),
        ("codex", ".codex/config.toml", "a = ", "not valid TOML"),
        ("codex", ".codex/config.toml", '[mcp_servers.ctxmgr]\ncommand = "x"\n', "another table"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"ctxmgr": {}}}', "another mcpServers"),
    ],
)
def test_a_file_that_cannot_be_edited_is_not_touched(
    home: Path, setup: Setup, *, client: str, name: str, text: str, reason: str
) -> None:
    """Nor is any other: the files are checked before the first one is written."""
    path = home / name
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")

    ran = setup(client)

    assert ran.exit_code != 0
    assert str(path) in ran.stderr
    assert reason in ran.stderr
    assert path.read_text(encoding="utf-8") == text
    assert [file for file in FILES[client] if (home / file).exists()] == [name]


@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_settings_that_are_no_file_are_not_waited_for(
    home: Path, setup: Setup, *, kind: str
) -> None:
    """Opening a pipe waits for a writer, and a link to itself leads nowhere."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)

    ran = setup("cursor")

    assert ran.exit_code in {2, 5, 6}
    assert str(path) in ran.stderr
    assert "bug" not in ran.stderr


@pytest.mark.parametrize(
    "receipt",
    ['{"a": 5}', '{"a": {"values": 5}}', '{"a": {"texts": [["x"]]}}', '{"a":' * 5_000, "[]"],
)
def test_a_damaged_receipt_is_named(home: Path, setup: Setup, *, receipt: str) -> None:
    """It was a traceback: nothing tells what an earlier setup added."""
    path = home / "state" / "ctxmgr" / "setup" / "cursor.json"
    path.parent.mkdir(parents=True)
    path.write_text(receipt, encoding="utf-8")

    ran = setup("cursor")

    assert ran.exit_code == 2
    assert f"{path} is damaged" in ran.stderr


def test_a_store_with_a_password_is_not_written_to_settings(home: Path) -> None:
    """Other users of the machine see the arguments of hooks, and a client shows its settings."""
    url = "xtdb+http://ann:correct7horse@127.0.0.1:3000"

    ran = CliRunner().invoke(COMMANDS, ["setup", "--store", url, "cursor"])

    assert (ran.exit_code, "has credentials" in ran.stderr) == (2, True)
    assert "correct7horse" not in ran.output
    assert not (home / ".cursor").exists()


def test_a_removal_without_a_setup_says_so(setup: Setup) -> None:
    """What nobody added is not removed."""
    ran = setup("cursor", "--remove")

    assert ran.exit_code != 0
    assert "cursor was not set up on this machine" in ran.stderr


def test_a_proxy_is_named_where_the_client_can_be_told(home: Path, setup: Setup) -> None:
    """Claude Code reads its address from its settings; for others there is `ctxmgr wrap`."""
    setup("claude-code", "--proxy", "http://127.0.0.1:9000")

    environment = read(home / ".claude" / "settings.json")["env"]
    assert environment == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9000"}
    assert "ctxmgr wrap gemini" in setup("gemini", "--proxy", "http://127.0.0.1:9000").stderr
    setup("claude-code", "--remove")
    assert not (home / ".claude" / "settings.json").exists()


spaces = st.sampled_from(["", " ", "\n", "\n  ", " // x\n", "/* y */", "\r\n\t"])
keys = st.sampled_from(["a", "b", "c"])


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON as people write it: any spacing, comments, trailing commas."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["1", '"{,}"', "null", "true", "[]", "{}"]))
    space = [draw(spaces) for _ in range(4)]
    if draw(st.booleans()):
        items = [draw(json_texts(depth - 1)) for _ in range(draw(st.integers(0, 3)))]
        opening, closing = "[", "]"
    else:
        names = draw(st.lists(keys, unique=True, max_size=3))
        items = [f'"{name}"{space[0]}:{space[1]}{draw(json_texts(depth - 1))}' for name in names]
        opening, closing = "{", "}"
    trailing = "," if items and draw(st.booleans()) else ""
    return opening + space[2] + f",{space[3]}".join(items) + trailing + space[0] + closing


@settings(max_examples=40, deadline=None)
@given(json_texts())
def test_an_edit_adds_one_value_and_its_removal_restores_the_rest(inner: str) -> None:
    """Whatever a file looks like, no other value changes, and no comment is lost."""
    text = f'{{"top": {inner}, "other": 1}}'
    document = JsonText.parse(text)

    added = document.set(("ours", "x"), {"y": [1]})

    assert added.root.value == {**document.root.value, "ours": {"x": {"y": [1]}}}
    removed = added.remove(("ours",))
    assert removed.text == text
    if isinstance(document.root.value["top"], dict):
        within = document.set(("top", "ours"), 5)
        assert within.get(("top", "ours")) is not None
        assert within.remove(("top", "ours")).root.value == document.root.value


@pytest.mark.parametrize("text", ["{", '{"a"}', '{"a": }', '{"a": 1} x', "/* ", '{"a": "\n"}'])
def test_damaged_json_is_refused_with_its_line(text: str) -> None:
    """The person has to find the place."""
    with pytest.raises(Incorrect, match="line "):
        JsonText.parse(text)
