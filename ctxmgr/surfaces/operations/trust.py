"""`ctxmgr trust`: confirm the settings file of the working directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ctxmgr.app import App

_SECRET: Final = frozenset({"token", "anthropic_api_key", "openai_api_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFile:
    file: Path
    sets: list[str]
    """What it sets, one ``name = value`` each, without credentials."""


async def trust(app: "App") -> TrustedFile:  # noqa: ARG001 (as every operation)
    """Confirm what the ctxmgr.toml of this directory sets.

    Until then, the file can set neither the store, nor addresses, nor credentials: it may have come
    with a project, or an agent may have written it. When its content changes, it has to be
    confirmed again.
    """
    from ctxmgr.core.store.urls import HIDDEN, redact_url
    from ctxmgr.settings import URLS, trust_folder

    file, values = trust_folder()
    shown = {
        name: HIDDEN if name in _SECRET else redact_url(str(value)) if name in URLS else value
        for name, value in values.items()
    }
    return TrustedFile(file=file, sets=[f"{name} = {value}" for name, value in shown.items()])
