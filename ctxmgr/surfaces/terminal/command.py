"""Run one command: settings, event loop, logging, progress, exit code. Prints.

    standard output   the result: a table, or JSON with --json
    standard error    progress on a terminal, logs with -v, and one line for an error
    exit code         see ``error_answers``

SIGINT and SIGTERM cancel the operation; a transaction is written whole or not at all.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from ctxmgr.app import App
from ctxmgr.core.store.urls import redact_urls
from ctxmgr.errors import CtxmgrError
from ctxmgr.integrations.agents.spool import SPOOL
from ctxmgr.settings import load_settings, state_dir
from ctxmgr.surfaces.encoding import json_bytes, json_line
from ctxmgr.surfaces.error_answers import INTERRUPTED, TERMINATED, UNSATISFIED, answer, line, remedy
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.terminal.console import escape_controls
from ctxmgr.surfaces.terminal.layouts import show

_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


def set_up_logging(verbose: int, *, as_json: bool) -> None:
    """Log ctxmgr's loggers at the requested level; other libraries' details only with -vv."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else _PLAIN)
    level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING if verbose < len(_LEVELS) - 1 else level)
    logging.getLogger("ctxmgr").setLevel(level)


class PlainFormatter(logging.Formatter):
    """One line per record, and the traceback if any; URLs without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_urls(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact_urls(record.getMessage()),
        }
        if record.exc_info:
            entry["traceback"] = redact_urls(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


_PLAIN: Final = PlainFormatter("%(levelname)s %(name)s: %(message)s")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that updates a progress line; without a terminal it prints nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("…") as status:
        yield status.update


def run(
    operation: Operation,
    arguments: dict[str, Any],
    *,
    store: str | None,
    as_json: bool,
    verbose: int,
    log_json: bool,
) -> int:
    """Run the operation, print its result, and return the exit code."""
    set_up_logging(verbose, as_json=log_json)
    try:
        result, signalled = asyncio.run(_run(operation, arguments, store=store, as_json=as_json))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except Exception as error:  # noqa: BLE001 (every error becomes one line and an exit code)
        _print_error(error, as_json=as_json, traceback=verbose > 0)
        return operation.failure or answer(error).exit_code
    if result is not None and as_json:
        click.echo(json_bytes(result))
    elif result is not None and operation.text is not None:
        click.echo(escape_controls(operation.text(result)), nl=False)
    elif result is not None:
        show(result)
    if operation.exit_code is not None:
        return operation.exit_code(result)
    if operation.interrupted(result):
        return TERMINATED if signalled else INTERRUPTED
    return 0 if operation.succeeded(result) else UNSATISFIED


async def _run(
    operation: Operation, arguments: dict[str, Any], *, store: str | None, as_json: bool
) -> tuple[Any, bool]:
    """Return the result, and whether SIGTERM was received."""
    task = asyncio.current_task()
    assert task is not None
    terminated = asyncio.Event()

    def terminate() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    silent = operation.streams or as_json
    with nullcontext(lambda _: None) if silent else progress() as say:
        app = App(
            load_settings(store=store),
            say=say,
            # With --json, standard output is the result alone.
            write=lambda text: click.echo(text, nl=False, err=as_json),
            show=_show_part(operation, as_json=as_json),
            create=operation.writes,
            here=Path.cwd() if operation.looks_here else None,
        )
        async with app:
            if operation.uses_store:
                await _store_events(app)
            return await operation.run(app, **arguments), terminated.is_set()


async def _store_events(app: App) -> None:
    """Store the events of hooks that wait for this store; if that fails, they wait on."""
    if not (state_dir() / SPOOL).is_dir():
        return
    from ctxmgr.surfaces.spooled_events import store_events

    try:
        await store_events(app)
    except CtxmgrError as error:
        logging.getLogger(__name__).warning("events of hooks wait: %s", error)


def _show_part(operation: Operation, *, as_json: bool) -> Callable[[object], None]:
    if not as_json:
        return show
    if operation.json_lines:
        return lambda part: click.echo(json_line(part))
    return lambda _: None


def _print_error(error: Exception, *, as_json: bool, traceback: bool) -> None:
    expected = isinstance(error, CtxmgrError)
    if traceback or not expected:
        logging.getLogger(__name__).error("the command failed", exc_info=error)
    if not as_json:
        click.echo(escape_controls(redact_urls(line(error))), err=True)
        return
    body = {
        "code": error.code if isinstance(error, CtxmgrError) else "error",
        "fault": answer(error).fault,
        "message": redact_urls(str(error)),
        "next": remedy(error),
    }
    click.echo(json_bytes({"error": body}), err=True)
