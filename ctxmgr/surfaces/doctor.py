"""What is installed here, and where the settings came from. Asks the machine, changes nothing."""

import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxmgr import __version__, open_store
from ctxmgr.errors import CtxmgrError
from ctxmgr.settings import cache_dir, data_dir, settings_files, state_dir

if TYPE_CHECKING:
    from ctxmgr.settings import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str
    found: str | None
    """None: it is not here."""
    note: str = ""


async def examine(loaded: "Loaded") -> list[Finding]:
    """List programs, folders and settings, each with what it is for."""
    return [*_programs(), await _sqlite(), *_folders(), *_settings(loaded)]


def _programs() -> list[Finding]:
    return [
        Finding(what="ctxmgr", found=__version__, note=str(Path(__file__).parent.parent)),
        Finding(what="python", found=platform.python_version(), note=sys.executable),
        Finding(what="system", found=platform.platform(), note="Linux; macOS for SQLite only"),
        _program("java", note="runs the XTDB server; 17 or newer"),
        _program("mvn", note="fetches the XTDB server's jars"),
        _program("docker", note="runs the XTDB server in a container"),
    ]


def _program(name: str, *, note: str) -> Finding:
    return Finding(what=name, found=shutil.which(name), note=note)


async def _sqlite() -> Finding:
    """Not only that it is there, but that it works."""
    try:
        async with await open_store("sqlite://:memory:") as store:
            return Finding(
                what="sqlite", found=(await store.status()).engine, note="the embedded store"
            )
    except CtxmgrError as error:
        return Finding(what="sqlite", found=None, note=str(error))


def _folders() -> list[Finding]:
    places = {"data": data_dir(), "state": state_dir(), "cache": cache_dir()}
    return [
        Finding(
            what=f"{name} folder", found=str(path), note="" if path.exists() else "not made yet"
        )
        for name, path in places.items()
    ] + [
        Finding(what="settings file", found=str(path), note="" if path.exists() else "not there")
        for path in settings_files()
    ]


def _settings(loaded: "Loaded") -> list[Finding]:
    # Secrets print as stars: pydantic's SecretStr sees to it.
    return [
        Finding(
            what=f"setting {name}",
            found=None if value is None else str(value),
            note=f"from: {loaded.origins[name]}",
        )
        for name, value in loaded.settings
    ]
