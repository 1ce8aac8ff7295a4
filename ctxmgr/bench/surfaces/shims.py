"""Benchmarks of the integrations against the SQLite classes of their frameworks. Writes to disk.

    OpenAI Agents   ``AgentsSession`` against ``SQLiteSession``: items of one turn, and all items
    LangGraph       ``Checkpointer`` against ``AsyncSqliteSaver``: a checkpoint with its writes

Both sides store the same conversation in a file of their own and alternate. A resume opens the file
again and reads everything.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias

from ctxmgr import connect, open_store
from ctxmgr.bench.core.long_chat import ChatTurn, conversation
from ctxmgr.bench.report import Figure, Say, at_most, reported
from ctxmgr.integrations.document_kinds import KINDS

RATIO_MAX: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimSizes:
    """The size of the measurement."""

    turns: int
    """Of the conversation before it is appended to."""
    appended: int
    resumed: int


FULL: Final = ShimSizes(turns=1_000, appended=40, resumed=9)
QUICK: Final = ShimSizes(turns=100, appended=10, resumed=3)

Step: TypeAlias = Callable[[], Awaitable[object]]
_Times: TypeAlias = list[tuple[float, float]]
"""Seconds that passed, and seconds of the processor."""


async def shim_figures(sizes: ShimSizes, *, say: Say) -> list[Figure]:
    """Measure both integrations, as far as their frameworks are installed."""
    figures: list[Figure] = []
    for name, measure in (("OpenAI Agents", _agents), ("LangGraph", _langgraph)):
        say(f"{name}: append and resume at {sizes.turns:,} turns")
        with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
            try:
                figures += await measure(sizes, Path(folder))
            except ModuleNotFoundError as error:
                note = f"needs {error.name}"
                figures.append(reported(f"{name}: append", None, against="its class", note=note))
    return figures


async def _agents(sizes: ShimSizes, folder: Path) -> list[Figure]:
    from agents import SQLiteSession  # noqa: PLC0415 (an extra, which may be missing)

    from ctxmgr.integrations.openai_agents import AgentsSession  # noqa: PLC0415

    turns = list(conversation(sizes.turns + sizes.appended))

    @asynccontextmanager
    async def opened() -> Any:
        async with (
            await open_store(f"sqlite:///{folder / 'ours.db'}", kinds=KINDS) as store,
            connect(store=store, tracking=False, directory="/nowhere") as client,
        ):
            yield await AgentsSession.open(client, "bench")

    appends: tuple[_Times, _Times] = ([], [])
    baseline = SQLiteSession("bench", folder / "theirs.db")
    async with opened() as ours:
        for number, turn in enumerate(turns):
            items = _items(turn, number)
            for side, session in enumerate((ours, baseline)):
                timed = await _timed(partial(session.add_items, items))
                if number >= sizes.turns:
                    appends[side].append(timed)
    baseline.close()

    async def resume_ours() -> int:
        async with opened() as session:
            return len(await session.get_items())

    async def resume_theirs() -> int:
        session = SQLiteSession("bench", folder / "theirs.db")
        found = len(await session.get_items())
        session.close()
        return found

    assert await resume_ours() == await resume_theirs(), "both hold the same items"
    resumes = await _alternating(resume_ours, resume_theirs, rounds=sizes.resumed)
    return _figures("OpenAI Agents", "SQLiteSession", sizes, appends, resumes)


async def _langgraph(sizes: ShimSizes, folder: Path) -> list[Figure]:
    from langchain_core.messages import AIMessage, HumanMessage  # noqa: PLC0415 (of an extra)
    from langgraph.checkpoint.base import empty_checkpoint  # noqa: PLC0415
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    from ctxmgr.integrations.langgraph.checkpointer import Checkpointer  # noqa: PLC0415

    turns = list(conversation(sizes.turns + sizes.appended))
    messages = [
        message
        for turn in turns
        for message in (HumanMessage(turn.user or turn.output), AIMessage(turn.text))
    ]

    @asynccontextmanager
    async def opened_ours() -> Any:
        url = f"sqlite:///{folder / 'ours.db'}"
        async with await open_store(url, kinds=KINDS) as store:
            yield Checkpointer(store)

    def opened_theirs() -> Any:
        return AsyncSqliteSaver.from_conn_string(str(folder / "theirs.db"))

    async def append(saver: Any, number: int) -> None:
        """Do what a graph does after a step: store its writes, and then the next checkpoint."""
        config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        version = saver.get_next_version(None, None)
        checkpoint = empty_checkpoint() | {
            "channel_values": {"messages": messages[: 2 * number]},
            "channel_versions": {"messages": version},
        }
        saved = await saver.aput(config, checkpoint, {"step": number}, {"messages": version})
        writes = [("messages", messages[2 * number - 2 : 2 * number])]
        await saver.aput_writes(saved, writes, f"task-{number}")

    appends: tuple[_Times, _Times] = ([], [])
    async with AsyncExitStack() as stack:
        savers = [await stack.enter_async_context(opened_ours())]
        savers.append(await stack.enter_async_context(opened_theirs()))
        for number in range(sizes.turns, sizes.turns + sizes.appended):
            for side, saver in enumerate(savers):
                timed = await _timed(partial(append, saver, number))
                appends[side].append(timed)

    async def resume(opened: Callable[[], Any]) -> int:
        async with opened() as saver:
            config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
            found = await saver.aget_tuple(config)
            return len(found.checkpoint["channel_values"]["messages"])

    assert await resume(opened_ours) == await resume(opened_theirs), "both hold the same messages"
    resumes = await _alternating(
        partial(resume, opened_ours), partial(resume, opened_theirs), rounds=sizes.resumed
    )
    return _figures("LangGraph", "AsyncSqliteSaver", sizes, appends, resumes)


def _items(turn: ChatTurn, number: int) -> list[Any]:
    """Return the items that the SDK stores for a turn with one tool call."""
    call = {"call_id": f"call-{number}", "name": "bash", "status": "completed"}
    text = {"type": "output_text", "text": turn.text, "annotations": []}
    return [
        {"role": "user", "content": turn.user or "Continue."},
        {"type": "function_call", "arguments": f'{{"command": "{turn.command}"}}', **call},
        {"type": "function_call_output", "call_id": call["call_id"], "output": turn.output},
        {"type": "message", "role": "assistant", "status": "completed", "content": [text]},
    ]


async def _alternating(ours: Step, theirs: Step, *, rounds: int) -> tuple[_Times, _Times]:
    times: tuple[_Times, _Times] = ([], [])
    for _ in range(rounds):
        for side, step in enumerate((ours, theirs)):
            times[side].append(await _timed(step))
    return times


async def _timed(step: Step) -> tuple[float, float]:
    started, busy = perf_counter(), process_time()
    await step()
    return perf_counter() - started, process_time() - busy


def _figures(
    name: str,
    baseline: str,
    sizes: ShimSizes,
    appends: tuple[_Times, _Times],
    resumes: tuple[_Times, _Times],
) -> list[Figure]:
    figures = []
    for what, times in (("append", appends), ("resume", resumes)):
        ours, theirs = (median(passed for passed, _ in side) * 1e3 for side in times)
        busy, their_busy = (median(busy for _, busy in side) * 1e3 for side in times)
        figures.append(
            at_most(
                f"{name}: {what} at {sizes.turns:,} turns",
                ours / theirs,
                bound=RATIO_MAX,
                against=f"{baseline} of the framework",
                note=f"{ours:.1f} ms, theirs {theirs:.1f}; "
                f"processor time {busy:.1f} ms, theirs {their_busy:.1f}",
            )
        )
    return figures
