"""Opens the store of a URL or of the settings.

    agent.db or any path    sqlite:///relative.db   sqlite:////absolute.db   sqlite://:memory:
    xtdb+http://host:port   xtdb+https://host

Drivers are imported by the call that needs them, so that only the store in use is loaded.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.private_files import make_private_folder
from ctxmgr.core.store.contract import IdForm, Kind, Store
from ctxmgr.core.store.urls import redact_url, store_url
from ctxmgr.errors import Incorrect, NotFound, requires_extra

if TYPE_CHECKING:
    from ctxmgr.settings import LoadedSettings

URL_EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": (
            "sqlite:///relative/file.db",
            "sqlite:////absolute/file.db",
            "sqlite://:memory:",
        ),
        "xtdb+http": ("xtdb+http://127.0.0.1:3000",),
        "xtdb+https": ("xtdb+https://xtdb.example.org",),
    }
)
"""Every scheme that ``open_store`` accepts, with examples."""


PROXY_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        name: Kind(name, ids=IdForm.NAMED)
        for name in (
            *("proxy_exchange", "proxy_session", "proxy_conversation"),
            *("proxy_step", "proxy_text"),
        )
    }
)
"""What the proxy stores. Ids of tool calls come from providers, and must not be those of these."""


async def open_loaded(
    loaded: "LoadedSettings", kinds: Mapping[str, Kind], *, create: bool = True
) -> Store:
    from ctxmgr.settings import DATABASE_FILE, data_dir

    loaded.require_trusted("store", "token", "ca_file")
    if create and loaded.origins["store"] == "default":
        # Only our own folder: a mistyped path elsewhere must not create folders.
        make_private_folder(data_dir())
    settings = loaded.settings
    if not create and loaded.origins["store"] == "default":
        file = data_dir() / DATABASE_FILE
        if not file.exists():
            raise NotFound(f"no store at {file} yet; `ctxmgr run` creates it")
    token = settings.token.get_secret_value() if settings.token else None
    return await open_at(
        settings.store,
        kinds=kinds,
        token=token,
        ca_file=settings.ca_file,
        timeout_s=settings.store_timeout,
        create=create,
    )


def _with_own_kinds(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Add ctxmgr's own kinds, so that nobody writes its objects without their rules."""
    ours = {**KINDS, **PROXY_KINDS}
    own = {
        name: replace(kind, indexed={**kinds[name].indexed, **kind.indexed})
        for name, kind in ours.items()
        if name in kinds
    }
    return {**ours, **kinds, **own}


async def open_at(
    url: str | Path,
    *,
    kinds: Mapping[str, Kind],
    token: str | None,
    ca_file: Path | None,
    timeout_s: float | None,
    create: bool = True,
) -> Store:
    kinds = _with_own_kinds(kinds)
    relative = isinstance(url, Path) and not url.is_absolute()
    url = store_url(f"./{url}" if relative else str(url))
    if _scheme(url) == "sqlite":
        from ctxmgr.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(url, kinds=kinds, create=create)
    with requires_extra("xtdb", "edn_format"):
        from ctxmgr.stores.xtdb.store import XtdbStore

    return await XtdbStore.open(url, kinds=kinds, token=token, ca_file=ca_file, timeout_s=timeout_s)


def _scheme(url: str) -> str:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        # The cause may quote a password.
        raise Incorrect(f"invalid URL {redact_url(url)!r:.200}; {_known()}") from None
    if "://" not in url or not scheme:
        raise Incorrect(f"{redact_url(url)!r:.200} is neither a path nor a store URL; {_known()}")
    if scheme not in URL_EXAMPLES:
        raise Incorrect(f"unknown kind of store {scheme!r:.80}; {_known()}")
    return scheme


def _known() -> str:
    return "use a path, or one of: " + ", ".join(
        url for urls in URL_EXAMPLES.values() for url in urls
    )
