"""How each agent is started so that its requests go through a proxy. Pure.

    claude      ANTHROPIC_BASE_URL
    codex       a provider of its own, in arguments; the token is in the environment
    opencode    OPENCODE_CONFIG_CONTENT, merged with what is there
    gemini      GOOGLE_GEMINI_BASE_URL; its requests pass, and are not shaped
    pi          an extension that sets the providers' addresses

Nothing is written: what is set holds for the one process.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.server.headers import TOKEN_HEADER
from ctxmgr.proxy.server.providers import Provider

PROXY_VARIABLE: Final = "CTXMGR_PROXY_URL"
"""Tells the extension of pi the address."""

TOKEN_VARIABLE: Final = "CTXMGR_PROXY_TOKEN"  # noqa: S105 (a name)
"""Holds the token for Codex: other users of the machine can see arguments."""

CODEX_PROVIDER: Final = "ctxmgr"

_FIRST_PARTY: Final = "api.anthropic.com"
_KEYS: Final = ("OPENAI_API_KEY", "CODEX_API_KEY")


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A program with its arguments, and what is added to its environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def agent_command(
    agent: str,
    args: Sequence[str],
    *,
    url: str,
    environment: Mapping[str, str],
    upstreams: Mapping[str, str],
    pi_extension: str,
) -> AgentCommand:
    """Return the command of an agent whose requests go to the proxy at ``url``."""
    match agent:
        case "claude":
            return AgentCommand(("claude", *args), _claude(url, environment, upstreams))
        case "codex":
            address, token = _without_token(url)
            words = _codex(address, environment, has_token=bool(token))
            return AgentCommand(("codex", *words, *args), {TOKEN_VARIABLE: token} if token else {})
        case "opencode":
            return AgentCommand(("opencode", *args), _opencode(url, environment))
        case "gemini":
            return AgentCommand(("gemini", *args), {"GOOGLE_GEMINI_BASE_URL": f"{url}/gemini"})
        case "pi":
            return AgentCommand(("pi", "-e", pi_extension, *args), {PROXY_VARIABLE: url})
        case _:
            raise Incorrect(f"unknown agent {agent!r:.80}")


def upstreams_of(environment: Mapping[str, str], *, known: Sequence[str]) -> list[str]:
    """Return the addresses that a person has set for their agents, except those of proxies."""
    found = []
    for name, provider, ending in (
        ("ANTHROPIC_BASE_URL", Provider.ANTHROPIC, ""),
        ("OPENAI_BASE_URL", Provider.OPENAI, "/v1"),
        ("GOOGLE_GEMINI_BASE_URL", Provider.GEMINI, ""),
    ):
        address = environment.get(name, "").rstrip("/")
        if address and not any(address.startswith(f"{proxy}/") for proxy in known):
            found.append(f"{provider}={address.removesuffix(ending)}")
    return found


def _claude(
    url: str, environment: Mapping[str, str], upstreams: Mapping[str, str]
) -> dict[str, str]:
    added = {"ANTHROPIC_BASE_URL": f"{url}/{Provider.ANTHROPIC}"}
    # With another base URL, Claude Code would load the definitions of all tools at once.
    added["ENABLE_TOOL_SEARCH"] = environment.get("ENABLE_TOOL_SEARCH", "true")
    if urlsplit(upstreams[Provider.ANTHROPIC]).hostname == _FIRST_PARTY:
        added["_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"] = "1"
    return added


def _without_token(url: str) -> tuple[str, str]:
    """Divide the address of a proxy from its token, which is empty if it has none."""
    path = urlsplit(url).path
    return url.removesuffix(path), path.strip("/")


def _codex(url: str, environment: Mapping[str, str], *, has_token: bool) -> list[str]:
    """Return the arguments that define a provider and select it.

    Codex's own provider would try a WebSocket first. Without a key, it is logged in to ChatGPT.
    """
    key = next((name for name in _KEYS if environment.get(name)), None)
    settings: dict[str, Any] = {"name": CODEX_PROVIDER, "wire_api": "responses"}
    if key is None:
        settings |= {"base_url": f"{url}/{Provider.CHATGPT}", "requires_openai_auth": True}
    else:
        settings |= {"base_url": f"{url}/{Provider.OPENAI}/v1", "env_key": key}
    words = ["-c", f'model_provider="{CODEX_PROVIDER}"']
    for name, value in settings.items():  # JSON's texts and booleans are TOML's as well
        words += ["-c", f"model_providers.{CODEX_PROVIDER}.{name}={json.dumps(value)}"]
    if has_token:
        table = f'{{"{TOKEN_HEADER}"="{TOKEN_VARIABLE}"}}'
        words += ["-c", f"model_providers.{CODEX_PROVIDER}.env_http_headers={table}"]
    return words


def _opencode(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    name = "OPENCODE_CONFIG_CONTENT"
    try:
        config = json.loads(environment.get(name) or "{}")
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"{name} is not valid JSON: {error}") from error
    ours = {
        str(provider): {"options": {"baseURL": f"{url}/{provider}/v1"}}
        for provider in (Provider.ANTHROPIC, Provider.OPENAI)
    }
    return {name: json.dumps(_merged(config, {"provider": ours}))}


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{name: _merged(below.get(name), part) for name, part in above.items()}}
