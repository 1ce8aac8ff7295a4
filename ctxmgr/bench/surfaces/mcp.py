"""Benchmarks of the MCP tools against the store calls they wrap. Starts a server process.

The official client calls the server over stdio. Both sides alternate, and medians are compared.
Tools that write are called in pairs that undo each other, because an unchanged state is not
written.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from ctxmgr import AsOf, Put, connect
from ctxmgr.bench.report import Figure, Say, reported
from ctxmgr.core.client.recall import update_index
from ctxmgr.core.objects.codec import from_document, to_document
from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.store.contract import Store
from ctxmgr.search.piece_index import PieceIndex

MORE_MS_MAX: Final = 5.0
"""Limit for the protocol, the second process and the resolution of names."""

CALLS: Final = 200
QUICK_CALLS: Final = 40

_SESSION: Final = "bench"
_OBJECTS: Final = 50
_SERVER: Final = ("-c", "from ctxmgr.surfaces.terminal.cli import main; main()", "mcp")
_WARM_UP: Final = 5
_WRITES_MAX: Final = 4 * (CALLS + _WARM_UP)
"""Commits of the baseline: four tools write, in two pairs."""
_AGAINST: Final = "the store call it wraps, in one process"

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Compared:
    """One tool, or two that undo each other, and the equivalent store call."""

    names: tuple[str, ...]
    arguments: Mapping[str, Any]
    store_call: Call


async def mcp_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    try:
        from mcp import Client as McpClient  # noqa: PLC0415 (an extra, which may be missing)
        from mcp import StdioServerParameters  # noqa: PLC0415
    except ModuleNotFoundError:
        return [reported("MCP tools", None, against=_AGAINST, note='needs the "mcp" extra')]
    calls, figures = QUICK_CALLS if quick else CALLS, []
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        url = f"sqlite:///{folder}/bench.db"
        started = StdioServerParameters(
            command=sys.executable, args=[*_SERVER, "--store", url, "--session", _SESSION]
        )
        async with AsyncExitStack() as closing:
            client = await closing.enter_async_context(connect(url, tracking=False))
            session = await client.start(_SESSION, system_prompt="Be careful.")
            for number in range(_OBJECTS):
                await session.render(f"question {number}")
                output = f"line {number}\nFAILED test_port_{number}: 8080\n"
                args = {"command": "x"}
                await session.record(f"call-{number}", tool="bash", args=args, output=output)
                await session.end_turn(f"answer {number}")
            comparisons = await _comparisons(client.store, Path(folder), closing)
            tools = await closing.enter_async_context(McpClient(started))
            for comparison in comparisons:
                say(f"MCP: {', '.join(comparison.names)}")
                figures += await _figures(comparison, tools.call_tool, calls=calls)
    return figures


async def _comparisons(store: Store, folder: Path, closing: AsyncExitStack) -> list[_Compared]:
    index = await PieceIndex.open(folder / "bare.search")
    closing.push_async_callback(index.close)
    await update_index(store, index)
    stored = await store.get(session_object_id(_SESSION))
    assert stored is not None
    record = from_document(stored.document)
    assert isinstance(record, SessionRecord)
    # Made beforehand: what is compared is one commit of such a document.
    others = iter(
        [
            Put(to_document(replace(record, session_id=f"other-{number}")))
            for number in range(_WRITES_MAX)
        ]
    )

    async def write() -> None:
        await store.commit([next(others)])

    async def search() -> None:
        hits = await index.search("failed", limit=5)
        await store.get_many([hit.object_id for hit in hits])

    async def look_back() -> None:
        await store.get("call-1", as_of=AsOf(valid_time=_LATER, system_time=_LATER))
        await store.get("call-1", as_of=AsOf(valid_time=_LATER))

    member = {"object_id": "call-1"}
    return [
        _Compared(("deactivate", "activate"), member, write),
        _Compared(("pin", "unpin"), member, write),
        _Compared(("recall",), {"query": "failed"}, search),
        _Compared(("show",), {"name": "call-1"}, lambda: store.get("call-1")),
        _Compared(("as_of",), {"name": "call-1", "valid_time": _LATER}, look_back),
    ]


_LATER: Final = 4_000_000_000_000
"""An instant in the future: all data is visible."""


async def _figures(
    compared: _Compared, call: Callable[[str, dict[str, Any]], Awaitable[Any]], *, calls: int
) -> list[Figure]:
    seconds: dict[str, list[float]] = {name: [] for name in compared.names}
    bare = []
    for number in range(-_WARM_UP, calls):
        for name in compared.names:
            started = perf_counter()
            answer = await call(name, dict(compared.arguments))
            between = perf_counter()
            await compared.store_call()
            assert not answer.is_error, answer
            if number >= 0:
                seconds[name].append(between - started)
                bare.append(perf_counter() - between)
    store_ms = median(bare) * 1000
    tool_ms = {name: median(times) * 1000 for name, times in seconds.items()}
    return [
        Figure(
            what=f"MCP tool {name}, official client over stdio, p50: ms more",
            value=ms - store_ms,
            bound=f"at most {MORE_MS_MAX:g} ms more",
            meets=ms - store_ms <= MORE_MS_MAX,
            against=_AGAINST,
            note=f"{ms:.2f} ms, store call {store_ms:.2f} ms",
        )
        for name, ms in tool_ms.items()
    ]
