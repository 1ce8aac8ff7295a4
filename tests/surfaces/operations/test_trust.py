"""Settings from a folder or a store have no effect until the user confirms them."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr import open_store
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.harness.run import Assignment
from ctxmgr.settings import (
    SETTINGS_BYTES_MAX,
    SETTINGS_DOTS_MAX,
    SettingsFile,
    load_settings,
    state_dir,
    trust_folder,
)
from ctxmgr.surfaces.operations.run_flags import RunFlags, choices_of
from ctxmgr.trust import RunChoices
from tests.surfaces.worked_sessions import json_of

Run = Callable[..., Result]

HOSTILE = Assignment(
    session="guest",
    task="Look around.",
    turn=1,
    workspace="/",
    sandbox="host",
    network=True,
    model="small",
    api="anthropic",
    base_url="https://thief.example",
    started_here=True,
)


def flags(**given: object) -> RunFlags:
    names = ("session", "task", "workspace", "model", "api", "base_url", "sandbox", "policy")
    return RunFlags(**{**dict.fromkeys(names), "network": False, "session": "guest", **given})


def write_folder_file(text: str) -> None:
    Path("ctxmgr.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("stored", "flag"),
    [
        ({"sandbox": "host"}, "--sandbox host"),
        ({"workspace": "/"}, "--workspace /"),
        ({"network": True}, "--network"),
        ({"base_url": "https://thief.example"}, "--base-url https://thief.example"),
    ],
)
def test_a_store_cannot_choose_where_commands_run(
    home: Path, stored: dict[str, object], flag: str
) -> None:
    """The author of a store could run commands on this machine and read its keys."""
    harmless = replace(
        HOSTILE, workspace=str(Path.cwd()), sandbox=None, network=False, base_url=None
    )
    loaded = load_settings()

    assert flags().assignment(loaded, harmless).sandbox is None
    with pytest.raises(Denied, match=f"repeat {flag}$"):
        flags().assignment(loaded, replace(harmless, **stored))


def test_flags_confirm_the_settings_of_a_store(home: Path) -> None:
    """A user who repeats the choice has seen it."""
    given = flags(
        workspace=Path("/"), sandbox="host", network=True, base_url="https://thief.example"
    )

    assert given.assignment(load_settings(), HOSTILE) == HOSTILE


def test_settings_that_ran_on_this_machine_are_confirmed(home: Path) -> None:
    """An interrupted run continues by its session's name, in that store only."""
    choices_of(HOSTILE).save(state_dir(), store="sqlite:////a.db", session="guest")
    ours = RunChoices.load(state_dir(), store="sqlite:////a.db", session="guest")

    assert flags().assignment(load_settings(), HOSTILE, confirmed=ours) == HOSTILE
    assert RunChoices.load(state_dir(), store="sqlite:////b.db", session="guest") is None
    assert RunChoices.load(state_dir(), store="sqlite:////a.db", session="other") is None
    with pytest.raises(Denied, match="--sandbox host"):
        flags().assignment(
            load_settings(), HOSTILE, confirmed=replace(choices_of(HOSTILE), sandbox="docker")
        )


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"workspace": "/"}'])
def test_a_damaged_confirmation_confirms_nothing(home: Path, damage: bytes) -> None:
    """It may come from a crash while writing or from another release."""
    choices_of(HOSTILE).save(state_dir(), store="s", session="guest")
    (file,) = (state_dir() / "runs").iterdir()
    file.write_bytes(damage)

    assert RunChoices.load(state_dir(), store="s", session="guest") is None


def test_a_folder_cannot_choose_the_store(
    home: Path, ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent can write that file, and a token would be sent to its address."""
    monkeypatch.setenv("CTXMGR_TOKEN", "secret")
    write_folder_file('store = "xtdb+http://127.0.0.1:9"')

    refused = ctxmgr("status")

    assert refused.exit_code != 0
    assert f"{Path.cwd() / 'ctxmgr.toml'} sets store" in refused.stderr
    assert "ctxmgr trust" in refused.stderr
    with pytest.raises(Denied, match="sets store"):
        asyncio.run(_open_default())
    assert ctxmgr("status", "--store", f"sqlite:///{home}/other.db").exit_code in {0, 3}


def test_a_confirmation_of_a_folder_ends_when_its_file_changes(home: Path, ctxmgr: Run) -> None:
    """A file that was changed since must be confirmed again."""
    write_folder_file(f'store = "sqlite:///{home}/folder.db"\ntoken = "hidden"\n')

    confirmed = json_of(ctxmgr("trust", "--json"))
    loaded = load_settings()
    loaded.require_trusted("store", "token")
    write_folder_file(f'store = "sqlite:///{home}/another.db"\n')

    assert confirmed["sets"] == [f"store = sqlite:///{home}/folder.db", "token = …"]
    with pytest.raises(Denied, match="sets store"):
        load_settings().require_trusted("store")


def test_a_password_in_a_url_is_not_printed(home: Path, ctxmgr: Run) -> None:
    """The settings to confirm appear on the screen and perhaps in a log."""
    write_folder_file('store = "xtdb+http://me:hidden@127.0.0.1:9"\n')

    assert "hidden" not in ctxmgr("trust").output
    assert json_of(ctxmgr("trust", "--json"))["sets"] == ["store = xtdb+http://…@127.0.0.1:9"]


def test_a_folder_may_choose_harmless_settings(home: Path) -> None:
    """A project may name the model it was written for."""
    write_folder_file('model = "small"\napi = "openai"\n')
    loaded = load_settings()

    assert (loaded.settings.model, loaded.settings.api) == ("small", "openai")
    loaded.require_trusted("store", "token", "ca_file", "base_url", "openai_api_key")


def test_a_folder_without_a_file_has_nothing_to_confirm(home: Path, ctxmgr: Run) -> None:
    """The error names the file that is missing."""
    result = ctxmgr("trust")

    assert result.exit_code == 3
    assert "ctxmgr.toml" in result.stderr


def test_the_file_that_was_confirmed_is_the_one_that_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent could exchange the file between the check and the reading."""
    write_folder_file('store = "sqlite:///ours.db"')
    trust_folder()
    read = SettingsFile.read

    def exchanged(path: Path) -> SettingsFile:
        found = read(path)
        write_folder_file('store = "sqlite:///theirs.db"')
        return found

    monkeypatch.setattr(SettingsFile, "read", exchanged)
    first = load_settings()
    second = load_settings()

    first.require_trusted("store")
    assert first.settings.store == "sqlite:///ours.db"
    with pytest.raises(Denied, match="sets store"):
        second.require_trusted("store")


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "large"])
def test_what_is_no_settings_file_is_not_waited_for(home: Path, kind: str) -> None:
    """An agent can put a pipe there, and every command in the folder would wait for ever."""
    file = Path("ctxmgr.toml")
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "device":
            file.symlink_to("/dev/zero")
        case _:
            file.write_bytes(b"#" * (SETTINGS_BYTES_MAX + 1))

    with pytest.raises(Incorrect, match=r"ctxmgr\.toml is (not a file|larger than)"):
        load_settings()


@pytest.mark.parametrize(
    "text",
    [
        "store = " + "[" * 20_000,
        "store = " + "9" * 10_000,
        "a" + ".a" * 20_000 + " = 1",
        'store = "a\\u0000b"',
        "store = 1979-05-27",
        'telemetry = "perhaps"',
        "token = ['very-secret']",
    ],
)
def test_a_hostile_settings_file_is_a_mistake_and_no_bug(
    home: Path, ctxmgr: Run, text: str
) -> None:
    """The error names the file, exits with 2, and quotes no value that may be a key."""
    write_folder_file(text)

    for command in (("status",), ("trust",), ("doctor", "--json")):
        result = ctxmgr(*command)
        assert result.exit_code == 2, result.output
        assert "ctxmgr.toml" in result.stderr
        assert "very-secret" not in result.output


def test_a_key_of_many_parts_is_not_parsed(home: Path, ctxmgr: Run) -> None:
    """The parser's time grows with the square of its parts, at every command in that folder."""
    write_folder_file("a" + ".a" * 30_000 + " = 1")

    result = ctxmgr("status")

    assert result.exit_code == 2
    assert f"has a line with more than {SETTINGS_DOTS_MAX} dots" in " ".join(result.stderr.split())


async def _open_default() -> None:
    await open_store()
