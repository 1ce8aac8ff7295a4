"""Every result has a schema that real answers match; a TypeScript client is generated from it."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.xdb import XDB
from ctxmgr.knowledge.notes.layout import MEMORY_FILE, Layout
from ctxmgr.knowledge.repository.setup import init_repository
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.http.api import offered_operations
from ctxmgr.surfaces.http.openapi import openapi_document, path_of
from tests.components import ROOT
from tests.experience.packs import small_pack
from tests.proxy.recording.exchanges import SESSION, record_conversation
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, work_three_turns

TYPESCRIPT = Path(__file__).parent / "typescript"


@pytest.fixture
async def local(home: Path) -> Worked:
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
async def notes(home: Path) -> Path:
    """A repository with a topic."""
    layout = Layout(home / "notes", home / "raw")
    await init_repository(layout)
    text = "---\ntype: topic\ntriggers: [soup]\n---\n## Instructions\n\nSalt."
    (layout.topics / "soup.md").write_text(text, encoding="utf-8")
    return layout.root


@pytest.fixture
def server(
    local: Worked, experience: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(notes))
    monkeypatch.setenv("CTXMGR_EXPERIENCE", str(experience))
    with serving(local.url) as running:
        yield running


@pytest.fixture
async def experience(home: Path) -> Path:
    """Recorded steps, a concept pack and documents."""
    root = home / "xdb"
    root.mkdir()
    small_pack(home).rename(root / "concepts.pack")
    async with XDB(root, "be") as xdb:
        await xdb.start_session("s1")
        await xdb.record(EventType.INPUT, "a word", {"c": 0.5}, role="user")
    return root


def test_real_answers_match_their_schemas(local: Worked, server: Server) -> None:
    """A generated client trusts the description: no field is missing, none is undescribed."""
    asyncio.run(record_conversation(local.url))
    document = server.get("/openapi.json").json()
    session = {"session": local.sid}
    member = {**session, "object_id": local.notes}
    now = server.get("/status").json()["system_time"]
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("/sessions", {"limit": limit}) for limit in (1, 20)),
        *(("/show", {"object_id": name}) for name in (local.sid, local.notes, f"{local.sid}-1")),
        *((path, session) for path in ("/objects", "/log", "/timeline", "/turn", "/cache")),
        ("/turn", {**session, "turn": 1, "full": True}),
        *(("/context", {**session, "form": form}) for form in ("text", "anthropic", "openai")),
        ("/context", {**session, "turn": 1, "tokens": "gpt-4o"}),
        *(("/diff", {"object_id": name}) for name in (local.sid, local.notes)),
        *(("/as-of", {"object_id": n, "valid_time": now}) for n in (local.sid, local.notes)),
        *((path, member) for path in ("/deactivate", "/activate", "/pin", "/unpin")),
        ("/comment", {**session, "turn": 1, "text": "the wrong port"}),
        ("/recall", {**session, "query": "port"}),
        ("/search", {**session, "query": "port"}),
        ("/calls", session),
        ("/usage", session),
        ("/unfold", {**session, "block": 1}),
        ("/compare", {**session, "other": local.sid}),
        ("/fork", {**session, "new_session": "copy"}),
        ("/proxy-requests", {"session": SESSION}),
        ("/proxy-request", {"session": SESSION, "number": 2}),
        ("/start", {"session": "other"}),
        *(("/render", {"session": "other", "form": form}) for form in ("text", "anthropic")),
        ("/record", {"session": "other", "call_id": "c1", "tool": "read"}),
        ("/end-turn", {"session": "other", "turn": 1, "answer": "yes"}),
        ("/status", {}),
        ("/get", {"object_id": local.notes}),
        ("/history", {"object_id": local.notes, "documents": True}),
        ("/history", {"object_id": local.notes}),
        ("/find", {"kind": "toolcall"}),
        ("/feed", {"documents": True}),
        ("/feed", {}),
        ("/v1/xdb/tag", {"tag": "odd", "session": "s1", "ticks": "1-2"}),
        ("/v1/xdb/comment", {"content": "odd", "timestep_id": "ts-s1-1"}),
        ("/v1/xdb/bud", {"tag": "odd", "status": "collecting"}),
        ("/v1/xdb/marks", {"session": "s1"}),
        ("/v1/xdb/curves", {"session": "s1"}),
        *((f"/v1/xdb/{name}", {}) for name in ("windows", "storage")),
        *((f"/v1/xdb/{name}", {}) for name in ("tags", "buds", "concepts", "documents", "recall")),
        *((f"/v1/topics/{name}", {}) for name in ("list", "check", "log", "tune")),
        *((f"/v1/knowledge/{name}", {}) for name in ("status", "check", "list", "log", "diff")),
        *((f"/v1/knowledge/{name}", {"path": MEMORY_FILE}) for name in ("blame", "show", "note")),
        ("/v1/knowledge/learnt", {"text": "Lessons"}),
        ("/v1/knowledge/search", {"query": "lessons"}),
        ("/v1/knowledge/add", {"text": "Tea at four."}),
        ("/v1/knowledge/ask", {"question": "learnt", "about": "Lessons"}),
        *((path, {}) for path in ("/v1/lifecycle/status", "/v1/lifecycle/run")),
        ("/v1/knowledge/review", {}),
        ("/v1/topics/show", {"name": "soup"}),
        ("/v1/topics/try", {"message": "soup"}),
        ("/compile", {"message": "soup"}),
        ("/v1/memory/add", {"key": "port", "value": "8080"}),
        *((f"/v1/memory/{name}", {}) for name in ("list", "contradictions")),
        ("/context/assemble", {"budget": 900, "signals": {"recent_errors": ["E1"]}}),
        ("/consolidate", {"dry_run": True}),
        ("/context/predict", {"file_opened": "src/shop.py"}),
        ("/v1/memory/search", {"question": "which port?"}),
        ("/v1/memory/remember", {"key": "shell", "value": "fish"}),
        ("/v1/memory/learn", session),
        ("/v1/memory/refused", {}),
    ]
    server.post("/v1/memory/add", key="port", value="8080")
    memory = server.post("/v1/memory/add", key="editor", value="vim").json()["memory"]["id"]
    asked += [
        *(
            (f"/v1/memory/{name}", {"memory_id": memory})
            for name in (
                *("show", "why", "expand", "history", "forget", "restore"),
                *("share", "unshare"),
            )
        ),
        ("/v1/memory/feedback", {"memory_id": memory, "outcome": "cited"}),
        ("/v1/memory/edit", {"memory_id": memory, "value": "nano"}),
    ]
    added = server.post("/v1/memory/add", key="port", value="9090").json()
    pair = added["contradictions"][0]["id"]
    resolving = "/contradictions/{id}/resolve"
    asked.append((resolving, {"resolution": "both_valid"}))

    for path, given in asked:
        answer = server.post(path.replace("{id}", pair), **given)
        assert answer.status_code == 200, (path, answer.text)
        described = document["paths"][path]["post"]["responses"]["200"]["content"]
        schema = described["application/json"]["schema"]
        strict = _strict({**schema, "components": document["components"]})
        problems = [
            error.message for error in Draft202012Validator(strict).iter_errors(answer.json())
        ]
        assert problems == [], (path, given)
    reviewed = {path for path in document["paths"] if path.startswith("/v1/audit/")}
    assert {path for path, _ in asked} == set(document["paths"]) - {"/events"} - reviewed


def test_every_result_has_a_schema() -> None:
    """`{}` would describe anything."""
    document = openapi_document(offered_operations(OPERATIONS))

    for operation in offered_operations(OPERATIONS):
        for method in document["paths"][path_of(operation)].values():
            schema = method["responses"]["200"]["content"]["application/json"]["schema"]
            references = schema.get("anyOf", [schema])
            assert all(set(part) == {"$ref"} for part in references), operation.name


@pytest.mark.timeout(600)
def test_a_generated_typescript_client_compiles_and_works(
    local: Worked, server: Server, tmp_path: Path
) -> None:
    """The steps of docs/http.md; `client.ts` has mistakes, too, that the types have to refuse.

    The harness in examples/ works through the client: two turns, one of them with a tool call.
    """
    folder = _with_packages(tmp_path)
    (folder / "openapi.json").write_bytes(server.get("/openapi.json").content)

    _node(folder, "openapi-typescript", "openapi.json", "--output", "ctxmgr.d.ts")
    _node(folder, "tsc", "--project", ".")
    printed, answered = (
        subprocess.run(
            ["node", program, server.url, session],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for program, session in (("client.js", local.sid), ("harness.js", "from-node"))
    )

    assert answered == "The server listens on port 8080.\n"
    log = server.get("/log", session="from-node").json()
    assert [len(entry["calls"]) for entry in log["entries"]] == [1, 0]
    result = json.loads(printed)
    assert result["sessions"] == [local.sid]
    assert result["turns"] == 3
    assert result["level"] == "metadata"
    assert result["code"] == "not_found"


def _with_packages(folder: Path) -> Path:
    """Copy the project there, with its packages, which npm installs once for all runs."""
    cached = ROOT / ".venv" / "typescript"
    lock = (TYPESCRIPT / "package-lock.json").read_bytes()
    stamp = cached / "node_modules" / ".installed"
    if not stamp.exists() or stamp.read_bytes() != lock:
        cached.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(TYPESCRIPT / name, cached / name)
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=cached, check=True, capture_output=True, timeout=500)
        stamp.write_bytes(lock)
    target = folder / "typescript"
    shutil.copytree(TYPESCRIPT, target)
    shutil.copy(ROOT / "examples" / "typescript" / "harness.ts", target)
    (target / "node_modules").symlink_to(cached / "node_modules")
    return target


def _node(folder: Path, program: str, *words: str) -> None:
    command = ["node_modules/.bin/" + program, *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)


def _strict(schema: Any) -> Any:
    """Forbid fields that a schema does not describe."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(value) for name, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        strict["additionalProperties"] = False
    return strict
