"""The real Claude Code and Codex through the proxy, against a scripted model on loopback."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.clients.scripted_provider import ScriptedProvider, Step, prefix_breaks

CTXMGR = (sys.executable, "-c", "from ctxmgr.surfaces.terminal.cli import main; main()")
SECONDS = 600
SOURCE = "".join(f'def f{n}():\n    """Return {n}."""\n    return {n}\n\n' for n in range(900))
SHOW_TOOL = "ctxmgr_show"


@dataclass
class Outcome:
    code: int | None
    output: str
    files: dict[str, str]
    provider: ScriptedProvider


async def run(
    agent: str, args: tuple[str, ...], steps: tuple[Step, ...], folder: Path, *, programs: Path
) -> tuple[Outcome, Outcome]:
    """Run an agent directly and through the proxy, each in a project and a home of its own."""
    direct = await _run(agent, args, steps, folder / "direct", programs, proxied=False)
    proxied = await _run(agent, args, steps, folder / "proxied", programs, proxied=True)
    return direct, proxied


async def _run(
    agent: str,
    args: tuple[str, ...],
    steps: tuple[Step, ...],
    folder: Path,
    programs: Path,
    *,
    proxied: bool,
) -> Outcome:
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "big.py").write_text(SOURCE, encoding="utf-8")
    kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
    home = {f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "DATA", "CONFIG")}
    keys = {"ANTHROPIC_API_KEY": "sk-ant-s3cret", "OPENAI_API_KEY": "sk-s3cret"}
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    environment = {
        **(kept | home | keys | quiet),
        "HOME": str(folder),
        "IS_SANDBOX": "1",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    async with ScriptedProvider(steps=steps) as provider:
        environment["ANTHROPIC_BASE_URL"] = provider.url
        environment["OPENAI_BASE_URL"] = f"{provider.url}/v1"
        direct_words = (agent, *_provider(agent, provider.url), *args)
        words = (*CTXMGR, "wrap", agent, "--", *args) if proxied else direct_words
        process = await asyncio.create_subprocess_exec(
            *words,
            env=environment,
            cwd=work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    files = {path.name: path.read_text(encoding="utf-8") for path in work.iterdir()}
    return Outcome(process.returncode, output.decode(), files, provider)


def _provider(agent: str, url: str) -> list[str]:
    if agent != "codex":
        return []
    settings = {"name": "x", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY"}
    settings["wire_api"] = "responses"
    given = [("model_provider", "x"), *((f"model_providers.x.{n}", v) for n, v in settings.items())]
    return [word for name, value in given for word in ("-c", f"{name}={json.dumps(value)}")]


def check(direct: Outcome, proxied: Outcome) -> None:
    """0 illegal requests, 0 changes of what was sent, and the same files."""
    assert (direct.code, proxied.code) == (0, 0), proxied.output
    assert proxied.files == direct.files
    assert proxied.provider.violations == []
    assert prefix_breaks(proxied.provider.asked) == prefix_breaks(direct.provider.asked) == []
    assert len(proxied.provider.asked) >= len(direct.provider.asked)
    assert SHOW_TOOL in proxied.provider.asked[-1].body.decode()


async def test_claude_code_works_the_same_through_the_proxy(tmp_path: Path, programs: Path) -> None:
    """Proxy rules 1, 2, 16, 18 and 19: reads, failures, parallel calls, edits and a retrieval."""
    steps: tuple[Step, ...] = (
        (
            "Reading.",
            (
                ("toolu_1a", "Read", {"file_path": "big.py"}),
                ("toolu_1b", "Bash", {"command": "seq 1 3000", "description": "Count"}),
            ),
        ),
        ("Failing.", (("toolu_2", "Bash", {"command": "exit 3", "description": "Fail"}),)),
        ("Writing.", (("toolu_3", "Bash", {"command": "echo done > out.txt"}),)),
        ("Looking.", (("toolu_4", "Read", {"file_path": "big.py"}),)),
        ("Done.", ()),
    )
    allowed = ("--allowedTools", "Bash,Read,Write,Edit", "--permission-mode", "bypassPermissions")

    args = ("-p", "Work.", "--model", "claude-sonnet-4-5", *allowed)
    direct, proxied = await run("claude", args, steps, tmp_path, programs=programs)

    check(direct, proxied)
    assert proxied.files["out.txt"] == "done\n"


async def test_codex_works_the_same_through_the_proxy(tmp_path: Path, programs: Path) -> None:
    """Proxy rule 29: Codex over HTTP, with its own tools."""

    def shell(call_id: str, command: str) -> tuple[str, str, dict[str, object]]:
        return call_id, "exec_command", {"cmd": command}

    steps: tuple[Step, ...] = (
        ("Reading.", (shell("call_1", "cat big.py"),)),
        ("Failing.", (shell("call_2", "exit 3"),)),
        ("Writing.", (shell("call_3", "echo done > out.txt"),)),
        ("Done.", ()),
    )

    free = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    args = ("exec", *free, "-m", "gpt-5.1-codex", "Work.")
    direct, proxied = await run("codex", args, steps, tmp_path, programs=programs)

    check(direct, proxied)
    assert proxied.files["out.txt"] == "done\n"
