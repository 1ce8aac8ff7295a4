"""What `ctxmgr run` is told, where it takes the rest from, and what it refuses."""

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


def test_a_session_keeps_what_it_was_given(home: Path) -> None:
    """Whoever goes on types the session's name and nothing else."""
    assert (
        _orders(session="run-1").assignment(load_settings(), KNOWN, confirmed=choices_of(KNOWN))
        == KNOWN
    )


def test_flags_win_over_what_a_session_had(home: Path) -> None:
    """Another machine has the project elsewhere, another day another model."""
    orders = _orders(
        session="run-1", workspace=home, model="large", sandbox="host", policy="economy"
    )

    result = orders.assignment(load_settings(), KNOWN, confirmed=choices_of(KNOWN))

    assert (result.workspace, result.model, result.sandbox) == (str(home), "large", "host")
    assert (KNOWN.policy, result.policy) == ("plain", "economy")
    assert (result.api, result.base_url, result.task) == ("openai", KNOWN.base_url, "Find it.")


def test_another_api_does_not_keep_the_address_of_the_first(home: Path) -> None:
    """A key must not go to the other provider's server."""
    result = _orders(session="run-1", api="anthropic").assignment(
        load_settings(), KNOWN, confirmed=choices_of(KNOWN)
    )

    assert result.base_url is None


def test_settings_say_what_flags_do_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is named once, not in every command."""
    monkeypatch.setenv("CTXMGR_MODEL", "medium")
    monkeypatch.setenv("CTXMGR_API", "openai")
    monkeypatch.setenv("CTXMGR_BASE_URL", "http://10.0.0.1/v1")

    result = _orders(task="Look.").assignment(load_settings(), None)

    assert (result.model, result.api, result.base_url) == ("medium", "openai", "http://10.0.0.1/v1")
    assert result.workspace == str(Path.cwd())
    assert result.session.startswith("run-")


def test_a_projects_file_sends_no_key_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever works in a stranger's folder must not pay with their key for it."""
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
def test_what_cannot_be_run_is_told_before_anything_is_done(
    ctxmgr: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    exit_code: int,
    message: str,
) -> None:
    """Who is at fault, what was wrong, what to do."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    result = ctxmgr("run", *words, "--store", "sqlite://:memory:")

    assert result.exit_code == exit_code
    assert message in result.output
    assert "continue with" not in result.output


def test_an_empty_task_is_no_task(home: Path) -> None:
    """A shell variable that was never set; the model would be asked nothing."""
    with pytest.raises(Incorrect, match="the task is empty"):
        _orders(task=" \n", model="m").assignment(load_settings(), None)


@pytest.mark.parametrize("flag", ["--turns-max", "--output-tokens-max"])
def test_bounds_are_checked_before_anything_is_begun(ctxmgr: Run, home: Path, flag: str) -> None:
    """A session that nothing was done in would only puzzle whoever lists them."""
    where = ("--base-url", "http://127.0.0.1:9", "--sandbox", "host", "--model", "m")

    result = ctxmgr("run", "Do it.", *where, flag, "0")

    assert result.exit_code == 2
    assert "must be at least 1" in result.stderr
    assert "run-" not in ctxmgr("sessions").stdout
