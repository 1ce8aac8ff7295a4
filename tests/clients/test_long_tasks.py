"""A task of sixty model calls in real agents, with the proxy and without it.

Failures, parallel calls, a picture, a subagent, a compaction, a resumed session and one that goes
back (Claude Code) or forks (Codex). All four runs go side by side, on loopback.
"""

import asyncio
import json
import os
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest

from ctxmgr import open_store
from ctxmgr.core.objects.envelope import exchange_id
from ctxmgr.core.sessions.storage import exchange_count
from ctxmgr.surfaces.views.sessions import list_sessions
from tests.clients.long_task import MAIN, SPAWNED, Call, LongStep, LongTaskProvider
from tests.clients.wire_rules import common_length, sent_messages, violations

CTXMGR = (sys.executable, "-c", "from ctxmgr.surfaces.terminal.cli import main; main()")
SECONDS = 600
"""For one run, which takes ten on a machine that is not busy."""

CALLS = 60
SHOW_TOOL = "ctxmgr_show"
REWOUND_TO = 44
"""The step, after the compaction, from which the third process of Claude Code goes on."""

SOURCE = "".join(f'def f{n}():\n    """Return {n}."""\n    return {n}\n\n' for n in range(400))


@dataclass
class LongRun:
    """What a run left behind."""

    output: str
    files: dict[str, bytes]
    provider: LongTaskProvider
    planned: list[set[int]]
    """Of each request that folded what was sent before: the messages."""

    @property
    def requests(self) -> int:
        return sum(map(len, self.provider.threads.values()))


@dataclass(frozen=True)
class AgentTask:
    """An agent, its script, and its processes one after another."""

    agent: str
    main: Sequence[LongStep]
    subagent: Sequence[LongStep]
    processes: Sequence[Callable[[Path], list[str]]]
    """Each returns its arguments, from the agent's home folder."""


def claude_task() -> AgentTask:
    """Claude Code with a model that binds its thinking: nothing that was sent may change."""

    def shell(command: str) -> Call:
        return "Bash", {"command": command, "description": "Run it"}

    def write(name: str, content: str) -> Call:
        return "Write", {"file_path": name, "content": content}

    def read(name: str, **more: int) -> Call:
        return "Read", {"file_path": name, **more}

    main: list[LongStep] = [
        LongStep(calls=[read("big.py"), shell("seq 1 3000"), shell("exit 3"), read("none.txt")]),
        LongStep(calls=[read("picture.png"), shell("ls -la")]),
        LongStep(calls=[("Agent", _errand)]),
        LongStep(calls=[(SHOW_TOOL, {"handle": "#2"})]),
    ]
    for n in range(12):
        edit = {"file_path": f"note{n}.txt", "old_string": "draft", "new_string": f"final {n}"}
        main += [
            LongStep(
                calls=[
                    shell(f"seq {n} {n + 900 + n * 40}"),
                    read("big.py", offset=n * 90 + 1, limit=90),
                ]
            ),
            LongStep(calls=[write(f"note{n}.txt", "a draft\n" + f"line of note {n}\n" * 60)]),
            LongStep(calls=[("Edit", edit), shell(f"grep -c note missing{n}.txt")]),
            LongStep(calls=[shell(f"cat note{n}.txt; wc -l big.py")]),
        ]
        if n == 5:
            main.append(LongStep(text="The first half is done."))
        if n == 8:
            main[-1] = LongStep(calls=main[-1].calls, tokens=990_000)
        if n == 10:
            main.append(LongStep(text="Almost."))
    args = ["--model", "claude-sonnet-5-5", "--permission-mode", "bypassPermissions"]
    return AgentTask(
        "claude",
        [*main, LongStep(text="Done.")],
        [LongStep(calls=[shell(f"seq {n} {n + 1500}"), read("big.py")]) for n in range(5)],
        (
            lambda home: ["-p", "Work.", "--session-id", _session(home), *args],
            lambda home: ["-p", "Go on.", "--resume", _session(home), *args],
            lambda home: [
                *("-p", "Once more.", "--resume", _session(home), *args),
                *("--resume-session-at", _message(home, f"msg_{MAIN}_{REWOUND_TO}")),
            ],
        ),
    )


def codex_task() -> AgentTask:
    """Codex with a model whose past texts may be folded, in planned batches."""

    def shell(command: str) -> Call:
        return "exec_command", {"cmd": command}

    wait = {"targets": [SPAWNED], "timeout_ms": 60_000}
    main: list[LongStep] = [
        LongStep(calls=[shell("cat big.py"), shell("exit 3"), shell("seq 1 3000")]),
        LongStep(calls=[("view_image", {"path": "picture.png"})]),
        LongStep(calls=[("multi_agent_v1/spawn_agent", {"message": "Look around"})]),
        LongStep(calls=[("multi_agent_v1/wait_agent", wait)]),
        LongStep(calls=[(SHOW_TOOL, {"handle": "#2"})]),
    ]
    for n in range(12):
        note = "".join(f"line {line} of note {n}\n" for line in range(60))
        main += [
            LongStep(calls=[shell(f"seq {n} {n + 900 + n * 40}"), shell("head -n 90 big.py")]),
            LongStep(calls=[shell(f"cat > note{n}.txt <<'END'\n{note}END")]),
            LongStep(calls=[shell(f"sed -i s/line/row/ note{n}.txt"), shell(f"cat missing{n}")]),
            LongStep(calls=[shell(f"cat note{n}.txt; wc -l big.py")]),
        ]
        if n == 5:
            main.append(LongStep(text="The first half is done."))
        if n == 8:
            main[-1] = LongStep(calls=main[-1].calls, tokens=240_000)
        if n == 10:
            main.append(LongStep(text="Almost."))
    free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    free += ["-m", "gpt-5.1-codex", "-c", "model_auto_compact_token_limit=200000"]
    return AgentTask(
        "codex",
        [*main, LongStep(text="Done.")],
        [LongStep(calls=[shell(f"seq {n} {n + 1500}"), shell("cat big.py")]) for n in range(5)],
        (
            lambda _home: ["exec", *free, "Work."],
            lambda _home: ["exec", "resume", *free, "--last", "Go on."],
            lambda home: ["exec", "fork", *free, _thread(home), "Once more."],
        ),
    )


_errand: dict[str, Any] = {
    "description": "Look around",
    "prompt": "Look around.",
    "subagent_type": "general-purpose",
    "run_in_background": False,
}


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, programs: Path
) -> dict[str, tuple[LongRun, LongRun]]:
    """By agent: a run without the proxy, and one with it."""
    return asyncio.run(_run_all(tmp_path_factory.mktemp("long"), programs))


async def _run_all(folder: Path, programs: Path) -> dict[str, tuple[LongRun, LongRun]]:
    tasks = [claude_task(), codex_task()]
    done = await asyncio.gather(
        *(
            _run(task, folder / f"{task.agent}-{proxied}", programs, proxied=proxied)
            for task in tasks
            for proxied in (False, True)
        )
    )
    return {task.agent: (done[2 * n], done[2 * n + 1]) for n, task in enumerate(tasks)}


async def _run(task: AgentTask, folder: Path, programs: Path, *, proxied: bool) -> LongRun:
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "big.py").write_text(SOURCE, encoding="utf-8")
    (work / "picture.png").write_bytes(_picture())
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
    output = ""
    async with LongTaskProvider(main=task.main, subagent=task.subagent) as provider:
        environment["ANTHROPIC_BASE_URL"] = provider.url
        environment["OPENAI_BASE_URL"] = f"{provider.url}/v1"
        for arguments in task.processes:
            args = await asyncio.to_thread(arguments, folder)
            direct = [task.agent, *_provider(task.agent, provider.url), *args]
            words = [*CTXMGR, "wrap", task.agent, "--", *args] if proxied else direct
            process = await asyncio.create_subprocess_exec(
                *words,
                env=environment,
                cwd=work,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                async with asyncio.timeout(SECONDS):
                    text, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
            output += text.decode()
            assert process.returncode == 0, output
    files = {path.name: path.read_bytes() for path in work.iterdir()}
    planned = await _planned(folder / "DATA" / "ctxmgr" / "ctxmgr.db") if proxied else []
    return LongRun(output, files, provider, planned)


def _provider(agent: str, url: str) -> list[str]:
    if agent != "codex":
        return []
    settings = {"name": "x", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY"}
    settings["wire_api"] = "responses"
    given = [("model_provider", "x"), *((f"model_providers.x.{n}", v) for n, v in settings.items())]
    return [word for name, value in given for word in ("-c", f"{name}={json.dumps(value)}")]


async def _planned(path: Path) -> list[set[int]]:
    """Return what the proxy says it has folded although it had been sent."""
    found = []
    async with await open_store(path) as store:
        for row in (await list_sessions(store, limit=100, cursor=None)).sessions:
            count = await exchange_count(store, row.session_id)
            ids = [exchange_id(row.session_id, number=number) for number in range(1, count + 1)]
            for version in (await store.get_many(ids)).values():
                folds = version.document.get("folds") or ()
                found.append({fold["message"] for fold in folds if fold["planned"]})
    return [messages for messages in found if messages]


def _session(home: Path) -> str:
    """Return a session's id, which no other process on this machine may use."""
    return str(uuid5(NAMESPACE_URL, f"{home} {home.stat().st_ino}"))


def _message(home: Path, message_id: str) -> str:
    """Return how Claude Code names a message of its transcript."""
    (transcript,) = home.glob(f".claude/projects/*/{_session(home)}.jsonl")
    rows = map(json.loads, transcript.read_text(encoding="utf-8").splitlines())
    found = [row["uuid"] for row in rows if row.get("message", {}).get("id") == message_id]
    return str(found[-1])


def _thread(home: Path) -> str:
    """Return the session that Codex has begun."""
    (first, *_) = sorted(home.glob(".codex/sessions/*/*/*/rollout-*.jsonl"))
    line = first.read_text(encoding="utf-8").partition("\n")[0]
    return str(json.loads(line)["payload"]["id"])


def _picture() -> bytes:
    """Return a PNG of 64 × 64 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + bytes(x * 3 % 256 for x in range(192)) for _ in range(64))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    )


def changed_messages(direct: LongRun, proxied: LongRun) -> list[set[int]]:
    """Return, of each request, the messages that the client sent again and that were changed.

    What the client sends again is read from the run without a proxy, whose requests are the same.
    """
    found = []
    threads = zip(direct.provider.threads.values(), proxied.provider.threads.values(), strict=True)
    for own, shaped in threads:
        assert len(own) == len(shaped)
        said, sent = ([sent_messages(request) for request in thread] for thread in (own, shaped))
        for n in range(1, len(said)):
            again, before = max((common_length(said[n], said[k]), k) for k in range(n))
            pairs = zip(sent[before][:again], sent[n][:again], strict=True)
            found.append({i for i, (one, other) in enumerate(pairs) if one != other})
    return [messages for messages in found if messages]


def _calls(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": call_id, "name": "Bash", "input": {}} for call_id in ids]
    return {"role": "assistant", "content": blocks}


def _results(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": "x"} for call_id in ids]
    return {"role": "user", "content": blocks}


def check(direct: LongRun, proxied: LongRun) -> None:
    assert direct.requests >= CALLS
    assert proxied.requests == direct.requests
    assert len(direct.provider.threads) >= 2, "there was no subagent"
    assert direct.provider.summaries
    assert proxied.provider.summaries
    assert direct.provider.violations == []
    assert proxied.provider.violations == []
    assert proxied.files == direct.files
    assert len(direct.files) >= 14
    sizes = [
        sum(len(request.body) for thread in run.provider.threads.values() for request in thread)
        for run in (direct, proxied)
    ]
    assert sizes[1] < sizes[0], "nothing was shaped"
    for thread in proxied.provider.threads.values():
        assert all(SHOW_TOOL in str(request.json["tools"]) for request in thread)


@pytest.mark.parametrize(
    "messages",
    [
        [_calls("a"), _results("a", "b")],
        [_calls("a", "b"), _results("a")],
        [_calls("a"), {"role": "user", "content": "Go on."}],
        [_calls("a"), _results("a"), _calls("a"), _results("a")],
        [_calls("a")],
        [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}] * 5}],
    ],
)
def test_the_provider_notices_illegal_requests(messages: list[dict[str, Any]]) -> None:
    """The other tests prove nothing if it does not."""
    legal = [{"role": "user", "content": "Work."}, _calls("x"), _results("x")]

    assert violations({"messages": legal}) == []
    assert violations({"messages": [*legal, *messages]})


def test_claude_code(runs: dict[str, tuple[LongRun, LongRun]]) -> None:
    """Proxy rules 1, 4, 5, 8, 9, 13 and 16: no byte that was sent changes, nor any of thinking."""
    direct, proxied = runs["claude"]

    check(direct, proxied)
    assert changed_messages(direct, proxied) == []


def test_codex(runs: dict[str, tuple[LongRun, LongRun]]) -> None:
    """Proxy rules 1, 7, 13, 16 and 29: what changes is what the proxy planned, and says so."""
    direct, proxied = runs["codex"]

    check(direct, proxied)
    changed = changed_messages(direct, proxied)
    assert len(changed) <= len(proxied.planned)
    assert all(any(messages <= plan for plan in proxied.planned) for messages in changed)
