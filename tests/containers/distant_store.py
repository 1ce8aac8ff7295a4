"""A store that is opened on another machine and used from this one.

    here                                    there
    DistantStore.get("a")  ── stdin ──►     python -m tests.containers.distant_store URL
                           ◄── stdout ──    the result of its XtdbStore, or its error

One call at a time; messages are pickles with their length before them. Both ends are this file.
"""

import asyncio
import pickle
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Self

from ctxmgr.core.store.contract import Kind
from ctxmgr.stores.xtdb.store import XtdbStore

ANSWER_SECONDS = 60
"""For one round trip; starting Python in a container takes a second or two."""

_LENGTH = struct.Struct(">I")


class DistantStore:
    """The local end. It has the methods of ``Store`` because it forwards every call."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def open(cls, command: list[str], url: str, *, kinds: Mapping[str, Kind]) -> Self:
        """Run the remote end with ``command``, and open the store at ``url`` there."""
        process = await asyncio.create_subprocess_exec(
            *(*command, "python3", "-m", "tests.containers.distant_store"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        store = cls(process)
        await store._call("open", url, kinds=dict(kinds))
        return store

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self._call(name, *arguments, **options)

    async def close(self) -> None:
        """Close the remote store, and wait until the process has ended."""
        await self._call("close")
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await asyncio.wait_for(self._process.wait(), ANSWER_SECONDS) == 0

    async def _call(self, name: str, /, *arguments: Any, **options: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_packed((name, arguments, options)))
        await process.stdin.drain()
        async with asyncio.timeout(ANSWER_SECONDS):
            length = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))[0]
            outcome, value = pickle.loads(await process.stdout.readexactly(length))
        if outcome == "raised":
            raise _rebuilt(*value)
        return value


async def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """The remote end: reply until there are no more requests."""
    store: Any = None
    while header := requests.read(_LENGTH.size):
        name, arguments, options = pickle.loads(requests.read(_LENGTH.unpack(header)[0]))
        try:
            if name == "open":
                store, value = await XtdbStore.open(*arguments, **options), None
            else:
                value = await getattr(store, name)(*arguments, **options)
            answer = ("returned", value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised at the other end
            answer = ("raised", (type(error), error.args, vars(error)))
        answers.write(_packed(answer))
        answers.flush()


def _packed(message: object) -> bytes:
    body = pickle.dumps(message)
    return _LENGTH.pack(len(body)) + body


def _rebuilt(
    kind: type[Exception], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> Exception:
    """Rebuild the error without its constructor, whose arguments are not stored."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(fields)
    return error


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.stdin.buffer, sys.stdout.buffer))
