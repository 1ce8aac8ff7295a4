"""Resumes one long conversation and prints time and memory as JSON. Run by ``long_chat_figures``.

python -m ctxmgr.bench.core.long_chat_child plain|economy|events FILE

It imports only what a program of that kind would import.
"""

import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

SESSION: Final = "long"
EVENTS: Final = "events"
WINDOW_TOKENS: Final = 8_000_000
"""More than the conversation has: what is measured is not how a window is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReport:
    """What a process needed, from its start to the next prompt."""

    seconds: float
    """Of the processor."""
    megabytes: float
    """The largest resident size."""
    chars: int


def measure(what: str, path: str) -> ChildReport:
    """Resume, and make the next prompt."""
    if what == EVENTS:
        from ctxmgr.bench.core.event_store import read_turns  # noqa: PLC0415

        prompt = "\n".join(text for turn in read_turns(path) for text in turn)
    else:
        prompt = _prompt(path, economy=what == "economy")
    return ChildReport(
        seconds=time.process_time(),
        megabytes=_peak_megabytes(),
        chars=len(prompt),
    )


def _peak_megabytes() -> float:
    # ``getrusage`` would count the process that started this one, too.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None, "Linux reports it for every process"
    return int(peak[1]) / 1024


def _prompt(path: str, *, economy: bool) -> str:
    import asyncio  # noqa: PLC0415

    from ctxmgr.app import connect  # noqa: PLC0415

    async def render() -> str:
        async with connect(f"sqlite:///{path}", tracking=False, directory="/nowhere") as client:
            live = await client.resume(SESSION)
            policy = None
            if economy:
                from ctxmgr.core.economy.policy import Economy  # noqa: PLC0415

                policy = Economy(window_tokens=WINDOW_TOKENS)
            return str(await live.render("and now?", policy=policy))

    return asyncio.run(render())


def main() -> None:
    """Print the measurement as JSON."""
    report = measure(sys.argv[1], sys.argv[2])
    import orjson  # noqa: PLC0415

    sys.stdout.buffer.write(orjson.dumps(asdict(report)))


if __name__ == "__main__":
    main()
