"""The checks of ``ctxmgr doctor``: programs, limits, folders, settings. Changes nothing.

An installed sandbox may not work: bubblewrap needs namespaces, Docker a running engine. So both are
tried, with a time limit.
"""

import platform
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ctxmgr import __version__, open_store
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import CtxmgrError
from ctxmgr.integrations.agents.spool import event_times, is_pending, refused_count, spool_origins
from ctxmgr.proxy.server.running import announced, ask_status
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from ctxmgr.sandboxes.processes import kill, run_program
from ctxmgr.settings import URLS, cache_dir, data_dir, settings_files, state_dir
from ctxmgr.surfaces.views.store.diagnosis import Diagnosis, Finding

if TYPE_CHECKING:
    from ctxmgr.settings import LoadedSettings


ENGINE_SECONDS: Final = 10
"""How long the Docker engine may take to answer."""

ANSWER_BYTES: Final = 4 * 1024
"""Read of its answer."""

INOTIFY: Final = {
    "max_user_watches": "folders that trackers can watch; files in more folders are polled",
    "max_user_instances": "clients of one user that can watch folders at once",
}
"""Kernel limits, and what they limit here."""

LIMITS: Final = Path("/proc/sys/fs/inotify")


async def examine(loaded: "LoadedSettings") -> Diagnosis:
    """Check programs, folders and settings."""
    sqlite, bubblewrap, docker = await _sqlite(), await _bubblewrap(), await _docker()
    works = {"bubblewrap": bubblewrap.found, "Docker": docker.found, "SQLite": sqlite.found}
    missing = [] if sqlite.found else ["SQLite does not work"]
    if not bubblewrap.found and not docker.found:
        missing.append("no sandbox: install bubblewrap or Docker")
    findings = (
        *_programs(),
        sqlite,
        bubblewrap,
        docker,
        *(
            Finding(what=f"inotify {name}", found=_limit(LIMITS / name), note=note)
            for name, note in INOTIFY.items()
        ),
        _filesystem(),
        await _proxy(),
        _hooks(),
        *_folders(),
        *_settings(loaded),
    )
    return Diagnosis(
        ready=not missing,
        summary="; ".join(missing) or ", ".join(name for name, found in works.items() if found),
        findings=findings,
    )


def _programs() -> list[Finding]:
    return [
        Finding(what="ctxmgr", found=__version__, note=str(Path(__file__).parent.parent.parent)),
        Finding(what="python", found=platform.python_version(), note=sys.executable),
        Finding(what="system", found=platform.platform(), note="Linux; macOS for SQLite only"),
        _program("java", note="runs the XTDB server; 17 or newer"),
        _program("mvn", note="downloads the XTDB server's jars"),
        _program("docker", note="runs the XTDB server, and sandboxes, in containers"),
        _program("bwrap", note="bubblewrap: the default sandbox where it works"),
        _program("rg", note="ripgrep; files are discovered in its output"),
        _program("git", note="files are discovered in its output"),
    ]


def _program(name: str, *, note: str) -> Finding:
    return Finding(what=name, found=shutil.which(name), note=note)


async def _sqlite() -> Finding:
    """Open a store in memory."""
    try:
        async with await open_store("sqlite://:memory:") as store:
            return Finding(
                what="sqlite", found=(await store.status()).engine, note="the embedded store"
            )
    except CtxmgrError as error:
        return Finding(what="sqlite", found=None, note=str(error))


async def _bubblewrap() -> Finding:
    """Start a sandbox, run `true` in it, and close it."""
    what = "sandbox bubblewrap"
    try:
        sandbox = await Bubblewrap.start(())
    except CtxmgrError as error:
        return Finding(what=what, found=None, note=str(error))
    try:
        description = sandbox.describe()
    finally:
        await sandbox.close()
    return Finding(
        what=what,
        found="works",
        note=f"limits: memory {description.memory}, processes {description.processes}",
    )


async def _docker() -> Finding:
    """Ask the engine for its version: the program alone cannot run containers."""
    what = "sandbox docker"
    words = ("docker", "info", "--format", "{{.ServerVersion}}")
    try:
        ran = await run_program(
            words, timeout_s=ENGINE_SECONDS, output_bytes=ANSWER_BYTES, end=kill
        )
    except CtxmgrError as error:
        return Finding(what=what, found=None, note=str(error))
    output = " ".join(ran.text.split())
    if ran.timed_out:
        return Finding(what=what, found=None, note=f"no answer in {ENGINE_SECONDS} s")
    if ran.exit_code:
        return Finding(what=what, found=None, note=output)
    return Finding(what=what, found=f"engine {output}", note="the engine answers")


def _limit(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:  # another system than Linux has no such limit
        return None


def _filesystem() -> Finding:
    what = "filesystem id"
    try:
        return Finding(
            what=what, found=host_filesystem_id(), note="identifies this machine's files"
        )
    except CtxmgrError as error:
        return Finding(what=what, found=None, note=str(error))


def _hooks() -> Finding:
    """Look for events of hooks: when the last one came, and what is not stored."""
    what, spools = "hooks", [folder for folder, _, _ in spool_origins(str(state_dir()))]
    times = [time for folder in spools for time in event_times(folder)]
    if not times:
        note = "no event of a coding agent has arrived; `ctxmgr setup` registers the hooks"
        return Finding(what=what, found=None, note=note)
    last = datetime.fromtimestamp(max(times), UTC).isoformat(sep=" ", timespec="seconds")
    waiting = sum(map(is_pending, spools))
    refused = sum(map(refused_count, spools))
    states = ["events wait to be stored"] if waiting else ["all events are stored"]
    states += [f"{refused} could not be stored"] if refused else []
    return Finding(what=what, found=f"last event {last}", note="; ".join(states))


async def _proxy() -> Finding:
    """Ask the proxy that runs what it did not shape, and why."""
    what = "proxy"
    running = announced(state_dir())
    status = None if running is None else await ask_status(running)
    if running is None or status is None:
        return Finding(what=what, found=None, note="not running; `ctxmgr proxy` starts it")
    found = urlsplit(running.url).netloc
    try:
        requests, records = status["requests"], status["records"]
        reasons = (f"{reason}: {count}" for reason, count in requests["unshaped"].items())
        notes = [f"shaped {requests['shaped']}", *reasons]
        if records["dropped"] or records["failed"]:
            notes.append(f"not recorded: {records['dropped'] + records['failed']}")
    except (KeyError, TypeError, AttributeError) as error:
        notes = [f"of another version, and reports no {error}: restart it"]
    return Finding(what=what, found=found, note="; ".join(notes))


def _folders() -> list[Finding]:
    folders = {"data": data_dir(), "state": state_dir(), "cache": cache_dir()}
    return [
        Finding(
            what=f"{name} folder", found=str(path), note="" if path.exists() else "not created yet"
        )
        for name, path in folders.items()
    ] + [
        Finding(what="settings file", found=str(path), note="" if path.exists() else "not present")
        for path in settings_files()
    ]


def _settings(loaded: "LoadedSettings") -> list[Finding]:
    # pydantic's SecretStr prints secrets as asterisks.
    return [
        Finding(
            what=f"setting {name}",
            found=None if value is None else redact_url(str(value)) if name in URLS else str(value),
            note=f"from: {loaded.origins[name]}",
        )
        for name, value in loaded.settings
    ]
