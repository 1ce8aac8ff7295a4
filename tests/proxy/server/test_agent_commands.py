"""How agents are pointed at the proxy."""

import json

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.server.agent_commands import AgentCommand, agent_command, upstreams_of
from ctxmgr.proxy.server.providers import PROVIDER_URLS, read_upstreams

URL = "http://127.0.0.1:8322/t0ken"


def command(agent: str, *upstreams: str, **environment: str) -> AgentCommand:
    return agent_command(
        agent,
        ["-p", "hi"],
        url=URL,
        environment=environment,
        upstreams={str(name): url for name, url in read_upstreams(upstreams).items()},
        pi_extension="/x.js",
    )


def test_claude_code_keeps_its_features_with_its_own_provider() -> None:
    """Proxy rule 32: another base URL would switch tool search and the 1M window off."""
    own = command("claude")
    other = command("claude", "anthropic=https://llm.example", ENABLE_TOOL_SEARCH="false")

    assert own.words == ("claude", "-p", "hi")
    assert own.environment == {
        "ANTHROPIC_BASE_URL": f"{URL}/anthropic",
        "ENABLE_TOOL_SEARCH": "true",
        "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1",
    }
    assert other.environment == {
        "ANTHROPIC_BASE_URL": f"{URL}/anthropic",
        "ENABLE_TOOL_SEARCH": "false",
    }


def test_codex_gets_a_provider_of_its_own() -> None:
    """X1: its built-in provider would try a WebSocket seven times first."""
    address = URL.removesuffix("/t0ken")
    with_key = " ".join(command("codex", OPENAI_API_KEY="k").words)
    logged_in = " ".join(command("codex").words)

    assert with_key.startswith('codex -c model_provider="ctxmgr" -c model_providers.ctxmgr.')
    assert f'base_url="{address}/openai/v1"' in with_key
    assert 'env_key="OPENAI_API_KEY"' in with_key
    assert with_key.endswith(" -p hi")
    assert f'base_url="{address}/chatgpt"' in logged_in
    assert "requires_openai_auth=true" in logged_in


def test_the_token_is_not_among_the_arguments_of_codex() -> None:
    """Every user of a machine can see the arguments of a process, and only its own user more."""
    started = command("codex")

    assert "t0ken" not in " ".join(started.words)
    assert 'env_http_headers={"x-ctxmgr-token"="CTXMGR_PROXY_TOKEN"}' in " ".join(started.words)
    assert started.environment == {"CTXMGR_PROXY_TOKEN": "t0ken"}


def test_opencodes_inline_settings_are_kept() -> None:
    """A person's own settings hold beside the addresses."""
    config = {"model": "x", "provider": {"openai": {"options": {"timeout": 1}}}}
    merged = command("opencode", OPENCODE_CONFIG_CONTENT=json.dumps(config)).environment

    assert json.loads(merged["OPENCODE_CONFIG_CONTENT"]) == {
        "model": "x",
        "provider": {
            "anthropic": {"options": {"baseURL": f"{URL}/anthropic/v1"}},
            "openai": {"options": {"timeout": 1, "baseURL": f"{URL}/openai/v1"}},
        },
    }
    with pytest.raises(Incorrect, match="OPENCODE_CONFIG_CONTENT"):
        command("opencode", OPENCODE_CONFIG_CONTENT="{")


def test_the_other_agents() -> None:
    """Gemini has a variable, and pi an extension."""
    assert command("gemini").environment == {"GOOGLE_GEMINI_BASE_URL": f"{URL}/gemini"}
    assert command("pi").words == ("pi", "-e", "/x.js", "-p", "hi")
    assert command("pi").environment == {"CTXMGR_PROXY_URL": URL}


def test_a_persons_own_base_urls_become_upstreams() -> None:
    """Whom the requests go to is the person's choice; a proxy is not sent to itself."""
    environment = {
        "ANTHROPIC_BASE_URL": f"{URL}/anthropic",
        "OPENAI_BASE_URL": "https://llm.example/api/v1/",
    }

    assert upstreams_of(environment, known=[URL]) == ["openai=https://llm.example/api"]


@pytest.mark.parametrize(
    "text",
    [
        *("https://host", "other=https://host", "openai=ftp://host", "openai=https://"),
        *("openai=https://user:s3cret@host", "openai=https://host?key=s3cret"),
    ],
)
def test_an_upstream_that_cannot_be_one_is_refused(text: str) -> None:
    """The error does not repeat a password."""
    with pytest.raises(Incorrect) as caught:
        read_upstreams([text])

    assert "s3cret" not in str(caught.value)
    assert read_upstreams([]) == PROVIDER_URLS
