"""Benchmark of importing a folder of recorded sessions. Writes files, commits.

The files have the form of Claude Code's transcripts: each result is in them three times, as the
message, for the display, and in the request that it was sent with. Importing them is compared with
reading and parsing them, in processor time.
"""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import orjson

from ctxmgr.app import connect, open_store
from ctxmgr.bench.report import Figure, Say, within
from ctxmgr.core.store.batched import in_batches
from ctxmgr.recordings.folders import import_folder

FILES: Final = 500
FILE_BYTES: Final = 2_000_000
QUICK_FILES: Final = 4
IMPORT_BOUND: Final = 3.0

_OUTPUT_CHARS: Final = (200, 2_000, 20_000, 60_000)
"""Lengths of outputs, one of which each call has."""

_WORDS: Final = (
    "server",
    "port",
    "error",
    "test",
    "return",
    "value",
    "config",
    "line",
    "of",
    "0x1f",
)
_BEGAN: Final = 1_772_359_200_000
_SEED: Final = 7


async def import_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    files = QUICK_FILES if quick else FILES
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as name:
        folder = Path(name) / "projects"
        folder.mkdir()
        say(f"write {files} transcripts")
        made = random.Random(_SEED)  # noqa: S311 (the same text in every run)
        calls = sum(_write(folder / f"{n:04}.jsonl", f"s{n:04}", made) for n in range(files))
        size = sum(path.stat().st_size for path in folder.iterdir())
        say("read and parse them")
        parsing = _parse_all(folder)
        say("import them")
        begun = process_time()
        async with (
            await open_store(f"sqlite:///{name}/sessions.db") as opened,
            in_batches(opened) as store,
            connect(store=store, tracking=False) as client,
        ):
            result = await import_folder(
                client, folder, progress=lambda done, total: say(f"imported {done} of {total}")
            )
        importing = process_time() - begun
    assert result.tool_calls == calls, result
    return [
        within(
            f"import of {files} transcripts, {size / 1e6:,.0f} MB, {calls:,} calls",
            importing / parsing,
            bound=IMPORT_BOUND,
            unit="×",
            against="reading and parsing them with orjson",
            note=f"{importing:.1f} s and {parsing:.2f} s of processor time",
        )
    ]


def _parse_all(folder: Path) -> float:
    begun = process_time()
    for path in sorted(folder.iterdir()):
        for line in path.read_bytes().splitlines():
            orjson.loads(line)
    return process_time() - begun


def _write(path: Path, session: str, made: random.Random) -> int:
    """Write one transcript; return its calls."""
    lines: list[bytes] = []
    size = calls = 0
    parent: str | None = None

    def add(kind: str, **fields: Any) -> None:
        nonlocal size, parent
        uuid = f"{session}-{len(lines)}"
        moment = _BEGAN + len(lines) * 1_000
        linked = {"uuid": uuid, "parentUuid": parent, "timestamp": moment} if kind != _BLOB else {}
        parent = uuid if linked else parent
        lines.append(orjson.dumps({"type": kind, "sessionId": session, **linked, **fields}))
        size += len(lines[-1])

    add("user", message={"role": "user", "content": f"Question of {session}"})
    while size < FILE_BYTES:
        calls += 1
        text = " ".join(made.choices(_WORDS, k=made.choice(_OUTPUT_CHARS) // 6))
        call = f"{session}-call-{calls}"
        block = {
            "type": "tool_use",
            "id": call,
            "name": "Bash",
            "input": {"command": f"cat {calls}"},
        }
        add("assistant", message={"id": f"m{calls}", "role": "assistant", "content": [block]})
        content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
        result = {"role": "user", "content": content}
        add("user", message=result, toolUseResult={"stdout": text, "stderr": ""})
        add(_BLOB, message=result)
    answer = [{"type": "text", "text": "Done."}]
    add("assistant", message={"id": "last", "role": "assistant", "content": answer})
    path.write_bytes(b"\n".join(lines) + b"\n")
    return calls


_BLOB: Final = "api-request-blob"
