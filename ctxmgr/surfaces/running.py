"""One command, run. Reads settings, runs the event loop once, prints.

    standard output   the result: a table for people, JSON with --json
    standard error    progress on a terminal, logs with -v, and one line when something is wrong
    exit code         see ``exits``

SIGINT and SIGTERM cancel the operation, which leaves a whole transaction or none.
"""

import asyncio
import logging
import signal
from typing import Any

import click

from ctxmgr.app import App
from ctxmgr.errors import CtxmgrError
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.exits import INTERRUPTED, TERMINATED, UNSATISFIED, answer, line
from ctxmgr.surfaces.logs import set_up_logging
from ctxmgr.surfaces.progress import progress
from ctxmgr.surfaces.tables import json_bytes, show


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
        result = asyncio.run(_run(operation, given, store=store))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except Exception as error:  # noqa: BLE001 (the edge: whatever it is becomes a line and a code)
        _tell(error, as_json=as_json, traceback=verbose > 0)
        return answer(error).exit_code
    if as_json:
        click.echo(json_bytes(result))
    else:
        show(result)
    return 0 if operation.succeeded(result) else UNSATISFIED


async def _run(operation: Operation, given: dict[str, Any], *, store: str | None) -> Any:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with progress() as say:
        async with App(load_settings(store=store), say=say, create=operation.writes) as app:
            return await operation.run(app, **given)


def _tell(error: Exception, *, as_json: bool, traceback: bool) -> None:
    expected = isinstance(error, CtxmgrError)
    if traceback or not expected:
        logging.getLogger(__name__).error("the command failed", exc_info=error)
    if not as_json:
        click.echo(line(error), err=True)
        return
    told = {
        "code": error.code if isinstance(error, CtxmgrError) else "error",
        "fault": answer(error).fault,
        "message": str(error),
        "next": answer(error).next,
    }
    click.echo(json_bytes({"error": told}), err=True)
