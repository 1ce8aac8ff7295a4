"""Where settings come from, and what opening a store may touch."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxmgr import Incorrect, connect, open_store
from ctxmgr import app as app_module
from ctxmgr.app import App, refuse_windows
from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
from ctxmgr.settings import default_store_url, load_settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user who never used ctxmgr."""
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


def test_the_closer_source_takes_precedence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_each_setting_is_resolved_independently(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            "unknown setting 'stroe' (one of: anthropic_api_key, api, audit, base_url, ",
        ),
        ("store = 5", "store: Input should be a valid string"),
        ("store =", "is not valid TOML"),
    ],
)
def test_the_error_for_an_invalid_setting_names_its_source(text: str, message: str) -> None:
    """A misspelt name would otherwise be ignored silently."""
    _write(Path("ctxmgr.toml"), text)

    with pytest.raises(Incorrect, match=r"ctxmgr\.toml") as caught:
        load_settings()

    assert message in str(caught.value)


def test_a_person_sets_prices_in_their_own_file(home: Path) -> None:
    """A price that is not given is that of input."""
    text = '[prices."qwen3"]\ninput = 0.4\noutput = 1.2\ncache_read = 0'
    _write(home / "config" / "ctxmgr" / "ctxmgr.toml", text)

    price = App(load_settings()).prices.of("qwen3-coder")

    assert price is not None
    assert (price.input, price.output, price.cache_read) == (0.4, 1.2, 0)
    assert (price.cache_write, price.cache_write_1h) == (0.4, 0.4)


def test_the_working_directory_sets_no_prices() -> None:
    """A project would otherwise decide what a budget in dollars means."""
    _write(Path("ctxmgr.toml"), '[prices."claude"]\ninput = 0\noutput = 0')

    with pytest.raises(Incorrect, match=r"prices are set in .*config/ctxmgr/ctxmgr.toml only"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[prices."m"]\ninput = 1', "prices.m.output: Field required"),
        ('[prices."m"]\ninput = -1\noutput = 1', "prices.m.input: Input should be greater"),
        ('[prices."m"]\ninput = inf\noutput = 1', "prices.m.input: Input should be a finite"),
        ('[prices."m"]\ninput = 1\noutput = 1\nread = 1', "prices.m.read: Extra inputs"),
        ("prices = 3", "prices: Input should be a"),
    ],
)
def test_the_error_for_an_invalid_price_names_its_place(
    home: Path, text: str, message: str
) -> None:
    """Money is never computed from a price that was misread."""
    _write(home / "config" / "ctxmgr" / "ctxmgr.toml", text)

    with pytest.raises(Incorrect, match="config/ctxmgr/ctxmgr") as caught:
        load_settings()

    assert message in str(caught.value)


def test_a_price_in_the_environment_has_to_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is ours, not a traceback of the settings library."""
    monkeypatch.setenv("CTXMGR_PRICES", "cheap")

    with pytest.raises(Incorrect, match="prices"):
        load_settings()


def test_the_providers_variable_is_used_unless_ours_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Users usually have it set; the key is never displayed."""
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
    """The working folder of a command must not select its store."""
    assert default_store_url() == f"sqlite:///{home}/data/ctxmgr/ctxmgr.db"


async def test_folders_are_created_when_a_store_is_opened(home: Path) -> None:
    """Importing and reading settings create nothing."""
    load_settings()
    assert not (home / "data").exists()

    async with await open_store() as store:
        assert (await store.status()).sequence is None

    assert (home / "data" / "ctxmgr" / "ctxmgr.db").is_file()


@pytest.mark.parametrize(
    "url", ["", "postgres://host/db", "sqlite:x", "host:3000", "://x", "http://[x"]
)
async def test_the_error_for_an_unknown_url_lists_the_known_stores(url: str) -> None:
    """Users read the message before the documentation."""
    with pytest.raises(Incorrect, match=r"use a path, or one of: sqlite:///.*xtdb\+http://"):
        await open_store(url)


@pytest.mark.parametrize("given", ["agent.db", "./agent.db", "100%?.db", Path("agent.db")])
def test_a_store_may_be_a_plain_path(
    home: Path, monkeypatch: pytest.MonkeyPatch, given: str | Path
) -> None:
    """People name a file, as they do to every other program."""

    async def files() -> set[object]:
        async with await open_store(given) as store:
            found = {(await store.status()).details["file"]}
        monkeypatch.setenv("CTXMGR_STORE", str(given))
        for url in (given, None):
            async with connect(url) as client:
                found.add((await client.store.status()).details["file"])
        return found

    assert asyncio.run(files()) == {str(Path(given).absolute())}
    assert Path(given).is_file()


def test_windows_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear error now is better than a missing lock or signal later."""
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(Incorrect, match="does not run on Windows"):
        refuse_windows()


async def test_the_lifecycle_goes_on_after_any_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """002-R170: what is due runs although transcripts cannot be closed, and is tried again."""
    twice = asyncio.Event()
    calls: list[int] = []

    async def no_transcripts(*_: object, **__: object) -> list[str]:
        raise OSError("no disk")

    async def no_run(*_: object, now: int, **__: object) -> list[object]:
        calls.append(now)
        if len(calls) == 2:
            twice.set()
        raise ValueError("not UTF-8")

    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(tmp_path / "work"))
    monkeypatch.setattr(app_module, "LIFECYCLE_SECONDS", 0.0)
    monkeypatch.setattr(App, "close_abandoned_transcripts", no_transcripts)
    monkeypatch.setattr(Lifecycle, "run_due", no_run)
    async with App(load_settings(store=f"sqlite:///{tmp_path}/a.db")) as app:
        running = asyncio.create_task(app.run_lifecycle())
        await asyncio.wait_for(twice.wait(), 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert "no disk" in caplog.text
    assert "not UTF-8" in caplog.text


async def test_the_lifecycle_runs_only_for_notes_that_a_person_chose(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """002-R170: a server in a folder of notes, or with an unconfirmed file, leaves them alone."""
    (Path.cwd() / "knowledge/identity").mkdir(parents=True)
    async with App(load_settings(store=f"sqlite:///{home}/a.db")) as app:
        await asyncio.wait_for(app.run_lifecycle(), 60)
    _write(Path.cwd() / "ctxmgr.toml", f'knowledge = "{Path.cwd()}"')
    async with App(load_settings(store=f"sqlite:///{home}/a.db")) as app:
        await asyncio.wait_for(app.run_lifecycle(), 60)

    assert "the lifecycle of notes does not run" in caplog.text
    assert "has not been confirmed" in caplog.text
    assert not (home / "a.db").exists()


def test_importing_does_nothing(home: Path) -> None:
    """A library must not create folders, print or read the environment on import."""
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
