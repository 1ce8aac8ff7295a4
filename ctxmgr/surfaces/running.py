"""One command, run. Reads settings, runs the event loop once, prints.

    standard output   the result: a table for people, JSON with --json
    standard error    progress on a terminal, logs with -v, and one line when something is wrong
    exit code         see ``exits``

SIGINT and SIGTERM cancel the operation, which leaves a whole transaction or none.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import click

from ctxmgr.app import App
from ctxmgr.errors import CtxmgrError
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.consoles import visible
from ctxmgr.surfaces.exits import INTERRUPTED, TERMINATED, UNSATISFIED, answer, line
from ctxmgr.surfaces.logs import set_up_logging
from ctxmgr.surfaces.progress import progress
from ctxmgr.surfaces.showing import show
from ctxmgr.surfaces.tables import json_bytes


def run(
    operation: Operation,
    given: dict[str, Any],
    *,
    store: str | None,
    as_json: bool,
    verbose: int,
    log_json: bool,
) -> int:
    """Run the operation, show its result, and return the exit code."""
    set_up_logging(verbose, as_json=log_json)
    try:
        result, signalled = asyncio.run(_run(operation, given, store=store, as_json=as_json))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except Exception as error:  # noqa: BLE001 (the edge: whatever it is becomes a line and a code)
        _tell(error, as_json=as_json, traceback=verbose > 0)
        return operation.failure or answer(error).exit_code
    if result is not None:
        _print(result, as_json=as_json)
    if operation.interrupted(result):
        return TERMINATED if signalled else INTERRUPTED
    return 0 if operation.succeeded(result) else UNSATISFIED


def _print(result: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_bytes(result))
    else:
        show(result)


async def _run(
    operation: Operation, given: dict[str, Any], *, store: str | None, as_json: bool
) -> tuple[Any, bool]:
    """Return the result, and whether SIGTERM came."""
    task = asyncio.current_task()
    assert task is not None
    terminated = asyncio.Event()

    def terminate() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    with nullcontext(_silent) if operation.streams else progress() as say:
        app = App(
            load_settings(store=store), say=say, write=_writer(as_json), create=operation.writes
        )
        async with app:
            return await operation.run(app, **given), terminated.is_set()


def _writer(as_json: bool) -> Callable[[str], None]:  # noqa: FBT001 (named by its caller)
    """Show what streams where the result is not: a program reads one JSON object."""
    return lambda text: click.echo(text, nl=False, err=as_json)


def _silent(_: str) -> None:
    """For an operation that tells more than a line of progress could."""


def _tell(error: Exception, *, as_json: bool, traceback: bool) -> None:
    expected = isinstance(error, CtxmgrError)
    if traceback or not expected:
        logging.getLogger(__name__).error("the command failed", exc_info=error)
    if not as_json:
        click.echo(visible(line(error)), err=True)
        return
    told = {
        "code": error.code if isinstance(error, CtxmgrError) else "error",
        "fault": answer(error).fault,
        "message": str(error),
        "next": answer(error).next,
    }
    click.echo(json_bytes({"error": told}), err=True)
