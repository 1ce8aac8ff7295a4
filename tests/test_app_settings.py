"""Where settings come from, and what opening a store may touch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxmgr import Incorrect, open_store
from ctxmgr.app import refuse_windows
from ctxmgr.settings import default_store_url, load_settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which ctxmgr was never used."""
    for name in ("DATA", "STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in [variable for variable in os.environ if variable.startswith("CTXMGR_")]:
        monkeypatch.delenv(name)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    (tmp_path / "config" / "ctxmgr").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_the_nearer_place_decides(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags over environment over the folder's file over the user's file over the default."""
    seen = [load_settings().origins["store"]]
    _write(home / "config" / "ctxmgr" / "ctxmgr.toml", 'store = "sqlite:///user.db"')
    seen.append(load_settings().settings.store)
    _write(Path("ctxmgr.toml"), 'store = "sqlite:///folder.db"')
    seen.append(load_settings().settings.store)
    monkeypatch.setenv("CTXMGR_STORE", "sqlite:///environment.db")
    seen.append(load_settings().settings.store)
    seen.append(load_settings(store="sqlite:///flag.db").settings.store)

    names = ("user", "folder", "environment", "flag")
    assert seen == ["default", *(f"sqlite:///{name}.db" for name in names)]


def test_each_setting_is_decided_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token in the environment does not hide the store of the file."""
    _write(Path("ctxmgr.toml"), 'store = "sqlite:///folder.db"')
    monkeypatch.setenv("CTXMGR_TOKEN", "secret")

    loaded = load_settings()

    assert loaded.origins["store"] == str(Path.cwd() / "ctxmgr.toml")
    assert loaded.origins["token"] == "environment"
    assert "secret" not in repr(loaded)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'stroe = "x"',
            "unknown setting 'stroe' (one of: anthropic_api_key, api, base_url, ca_file, ",
        ),
        ("store = 5", "store: Input should be a valid string"),
        ("store =", "is not valid TOML"),
    ],
)
def test_a_bad_setting_names_its_place(text: str, message: str) -> None:
    """A misspelt name would otherwise be ignored, and the default used in silence."""
    _write(Path("ctxmgr.toml"), text)

    with pytest.raises(Incorrect, match=r"ctxmgr\.toml") as caught:
        load_settings()

    assert message in str(caught.value)


def test_a_providers_own_variable_holds_the_key_unless_ours_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """People have set it already; and it is shown nowhere."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-theirs")
    theirs = load_settings()
    monkeypatch.setenv("CTXMGR_ANTHROPIC_API_KEY", "sk-ours")
    ours = load_settings()

    assert [item.settings.api_key("anthropic") for item in (theirs, ours)] == [
        "sk-theirs",
        "sk-ours",
    ]
    assert theirs.origins["anthropic_api_key"] == "environment"
    assert theirs.settings.api_key("openai") is None
    assert "sk-" not in repr(ours)


def test_the_default_store_is_absolute_and_in_the_data_folder(home: Path) -> None:
    """Where a command is run must not decide which store it sees."""
    assert default_store_url() == f"sqlite:///{home}/data/ctxmgr/ctxmgr.db"


async def test_folders_are_made_when_a_store_is_opened(home: Path) -> None:
    """Importing and asking leave no trace; only work does."""
    load_settings()
    assert not (home / "data").exists()

    async with await open_store() as store:
        assert (await store.status()).sequence is None

    assert (home / "data" / "ctxmgr" / "ctxmgr.db").is_file()


@pytest.mark.parametrize(
    "url", ["", "nothing", "postgres://host/db", "sqlite", "://x", "http://[x"]
)
async def test_an_url_that_names_no_store_lists_the_known_ones(url: str) -> None:
    """The message is the documentation that is read."""
    with pytest.raises(Incorrect, match=r"use one of: sqlite:///.*xtdb\+http://"):
        await open_store(url)


def test_windows_is_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better one sentence now than a missing lock or signal later."""
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(Incorrect, match="does not run on Windows"):
        refuse_windows()


def test_importing_does_nothing(home: Path) -> None:
    """No folders, no output, no environment: a library is imported for what it offers."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import ctxmgr.surfaces.terminal.cli, ctxmgr.settings",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "CTXMGR_STORE": "nonsense"},
    )

    assert (done.stdout, done.stderr) == ("", "")
    assert sorted(path.name for path in home.iterdir()) == ["config", "work"]


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
