"""The flags of `ctxmgr run`, the sources of other settings, and what it refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr.errors import Denied, Incorrect
from ctxmgr.harness.run import Assignment
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.operations.run_flags import RunFlags, choices_of

Run = Callable[..., Result]

KNOWN = Assignment(
    session="run-1",
    task="Find it.",
    turn=4,
    workspace="/srv/project",
    sandbox="docker",
    network=True,
    model="small",
    api="openai",
    base_url="http://localhost:8000/v1",
    started_here=True,
)


def _orders(**given: object) -> RunFlags:
    names = ("session", "task", "workspace", "model", "api", "base_url", "sandbox", "policy")
    return RunFlags(**{**dict.fromkeys(names), "network": False, **given})


def test_a_session_keeps_its_settings(home: Path) -> None:
    """To continue, the session's name is enough."""
    assert (
        _orders(session="run-1").assignment(load_settings(), KNOWN, confirmed=choices_of(KNOWN))
        == KNOWN
    )


def test_flags_override_the_settings_of_a_session(home: Path) -> None:
    """The project may be elsewhere on another machine, and models change."""
    orders = _orders(
        session="run-1", workspace=home, model="large", sandbox="host", policy="economy"
    )

    result = orders.assignment(load_settings(), KNOWN, confirmed=choices_of(KNOWN))

    assert (result.workspace, result.model, result.sandbox) == (str(home), "large", "host")
    assert (KNOWN.policy, result.policy) == ("plain", "economy")
    assert (result.api, result.base_url, result.task) == ("openai", KNOWN.base_url, "Find it.")


def test_a_new_run_has_the_economy_policy(home: Path) -> None:
    """Design D5: the plain form costs several times an append-only conversation."""
    assert (
        _orders(task="Look.", model="large").assignment(load_settings(), None).policy == "economy"
    )


def test_another_api_does_not_keep_the_address_of_the_first(home: Path) -> None:
    """A key must not be sent to the other provider's server."""
    result = _orders(session="run-1", api="anthropic").assignment(
        load_settings(), KNOWN, confirmed=choices_of(KNOWN)
    )

    assert result.base_url is None


def test_settings_are_used_where_flags_are_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model need not be named in every command."""
    monkeypatch.setenv("CTXMGR_MODEL", "medium")
    monkeypatch.setenv("CTXMGR_API", "openai")
    monkeypatch.setenv("CTXMGR_BASE_URL", "http://10.0.0.1/v1")

    result = _orders(task="Look.").assignment(load_settings(), None)

    assert (result.model, result.api, result.base_url) == ("medium", "openai", "http://10.0.0.1/v1")
    assert result.workspace == str(Path.cwd())
    assert result.session.startswith("run-")


def test_a_projects_file_cannot_redirect_a_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrusted folder must not obtain the user's key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    Path("ctxmgr.toml").write_text(
        'model = "m"\napi = "openai"\nbase_url = "https://thief.example/v1"\n', encoding="utf-8"
    )

    with pytest.raises(Denied, match="sets base_url"):
        _orders(task="Look.").assignment(load_settings(), None)


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ((), 2, "no task given"),
        (("Look.",), 2, "no model given: use --model"),
        (("Look.", "--model", "m"), 2, "needs an API key: set ANTHROPIC_API_KEY"),
        (("--session", "nobody"), 3, "there is no session nobody"),
        (("Look.", "--session", "nobody", "--model", "m"), 3, "there is no session nobody"),
        (
            ("x", "--model", "m", "--base-url", "nowhere"),
            2,
            "invalid base URL 'nowhere/v1/messages'",
        ),
        (
            ("x", "--model", "m", "--base-url", "http://localhost:1", "--workspace", "missing"),
            2,
            "is not a directory",
        ),
    ],
)
def test_an_invalid_run_is_reported_before_anything_is_done(
    ctxmgr: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    exit_code: int,
    message: str,
) -> None:
    """The message says what is wrong and what to do."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    result = ctxmgr("run", *words, "--store", "sqlite://:memory:")

    assert result.exit_code == exit_code
    assert message in result.output
    assert "continue with" not in result.output


def test_an_empty_task_is_refused(home: Path) -> None:
    """An unset shell variable gives an empty task, which no model can do."""
    with pytest.raises(Incorrect, match="the task is empty"):
        _orders(task=" \n", model="m").assignment(load_settings(), None)


@pytest.mark.parametrize("flag", ["--max-turns", "--output-tokens-max"])
def test_limits_are_checked_before_a_session_is_created(ctxmgr: Run, home: Path, flag: str) -> None:
    """An empty session would only be confusing in the list."""
    where = ("--base-url", "http://127.0.0.1:9", "--sandbox", "host", "--model", "m")

    result = ctxmgr("run", "Do it.", *where, flag, "0")

    assert result.exit_code == 2
    assert "must be at least 1" in result.stderr
    assert "run-" not in ctxmgr("sessions").stdout
