"""The providers that a proxy forwards to, and which of them a path belongs to. Pure.

    /anthropic/v1/messages             the first segment names the provider
    /openai/v1/responses
    /v1/messages                       without one, paths that only one provider has
    any path, header anthropic-version

The addresses are set by the person who starts the proxy. A request only selects one of them, and
one that selects none is refused, so that no provider receives another one's credentials.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import Incorrect
from ctxmgr.proxy.engine import Api


class Provider(StrEnum):
    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    CHATGPT = "chatgpt"
    """OpenAI's models for subscribers, as Codex uses them after a login."""
    GEMINI = "gemini"


PROVIDER_URLS: Final[Mapping[Provider, str]] = MappingProxyType(
    {
        Provider.ANTHROPIC: "https://api.anthropic.com",
        Provider.OPENAI: "https://api.openai.com",
        Provider.CHATGPT: "https://chatgpt.com/backend-api/codex",
        Provider.GEMINI: "https://generativelanguage.googleapis.com",
    }
)
"""The providers' own addresses."""

_APIS: Final[Mapping[tuple[Provider, str], Api]] = MappingProxyType(
    {
        (Provider.ANTHROPIC, "/v1/messages"): Api.ANTHROPIC_MESSAGES,
        (Provider.ANTHROPIC, "/v1/messages/count_tokens"): Api.ANTHROPIC_MESSAGES,
        (Provider.OPENAI, "/v1/chat/completions"): Api.OPENAI_CHAT,
        (Provider.OPENAI, "/v1/responses"): Api.OPENAI_RESPONSES,
        (Provider.CHATGPT, "/responses"): Api.OPENAI_RESPONSES,
    }
)
_ONLY: Final = (
    ("/v1/messages", Provider.ANTHROPIC),
    ("/api/", Provider.ANTHROPIC),
    ("/v1/chat/completions", Provider.OPENAI),
    ("/v1/responses", Provider.OPENAI),
    ("/v1beta/", Provider.GEMINI),
)
"""How the paths begin that only one provider has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTarget:
    """Where a request goes."""

    provider: Provider
    path: str
    """Without the provider's name; percent-encoded, as the client sent it."""
    api: Api | None
    """None: the request is passed on as it came."""


def target_of(method: str, path: str, *, headers: Mapping[str, str]) -> ForwardTarget | None:
    """Return where a request goes; None if its path does not say."""
    provider, rest = _provider(path, headers)
    if provider is None:
        return None
    api = _APIS.get((provider, rest)) if method == "POST" else None
    return ForwardTarget(provider=provider, path=rest, api=api)


def read_upstreams(given: Iterable[str]) -> Mapping[Provider, str]:
    """Return the address of each provider; ``given`` are texts such as ``openai=https://host``."""
    urls = dict(PROVIDER_URLS)
    for text in given:
        name, equals, url = text.partition("=")
        if not equals or name not in set(Provider):
            names = ", ".join(Provider)
            raise Incorrect(
                f"an upstream is NAME=URL with one of {names}, not {redact_url(text)!r:.200}"
            )
        urls[Provider(name)] = check_upstream(url)
    return MappingProxyType(urls)


def check_upstream(url: str) -> str:
    """Return an address without a final slash; ``Incorrect`` if it cannot be one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Incorrect(
            f"invalid upstream {redact_url(url)!r:.200}: it must begin with https:// or http://"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise Incorrect(
            f"invalid upstream {redact_url(url)!r:.200}: it must have no credentials and no query"
        )
    return url.rstrip("/")


def _provider(path: str, headers: Mapping[str, str]) -> tuple[Provider | None, str]:
    first, slash, rest = path.removeprefix("/").partition("/")
    if slash and first in set(Provider):
        return Provider(first), f"/{rest}"
    for beginning, provider in _ONLY:
        if path.startswith(beginning):
            return provider, path
    return (Provider.ANTHROPIC if "anthropic-version" in headers else None), path
