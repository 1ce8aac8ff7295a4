"""Stores and bundles written by earlier versions open, and give the same answers as before.

``make_fixtures`` describes the recorded session and how to add the fixtures of a release.
"""

import asyncio
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

import ctxmgr
from tests.compatibility import answers
from tests.compatibility.answers import FORK, SESSION, portable
from tests.xtdb.servers import XtdbServer, require_xtdb

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(file.parent.name for file in FIXTURES.glob("*/store.db.xz"))
SUBMIT_SECONDS = 60.0
OTHER = "other"
"""A session that the store holds before the bundle is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A store written by an earlier version, and that version's answers about it."""

    url: str
    expected: dict[str, Any]
    imported: bool = False
    """Imported from a bundle, so transaction numbers and system times differ."""

    @property
    def connected(self) -> Any:
        """A client with the original mounts, whose folders no longer exist."""
        return ctxmgr.connect(self.url, mounts=self.expected["mounts"], tracking=False)


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Path:
    return FIXTURES / str(request.param)


@pytest.fixture(
    scope="module", params=["sqlite", "bundle", pytest.param("xtdb", marks=pytest.mark.xtdb)]
)
def earlier(
    request: pytest.FixtureRequest, version: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Earlier]:
    """One store for all tests of this file: the tests that write come last."""
    expected = json.loads(_unpacked(version / "expected.json.xz"))
    file = tmp_path_factory.mktemp("earlier") / "store.db"
    if request.param == "sqlite":
        file.write_bytes(_unpacked(version / "store.db.xz"))
        yield Earlier(url=f"sqlite:///{file}", expected=expected["sqlite"])
    elif request.param == "bundle":
        asyncio.run(_import(f"sqlite:///{file}", version / "session.bundle"))
        yield Earlier(url=f"sqlite:///{file}", expected=expected["sqlite"], imported=True)
    else:
        require_xtdb()
        with XtdbServer() as server:
            _submit(server.url, json.loads(_unpacked(version / "transactions.json.xz")))
            yield Earlier(url=f"xtdb+{server.url}", expected=expected["xtdb"])


async def test_every_version_of_every_object_is_read(earlier: Earlier) -> None:
    """An upgrade loses no version, and none changes its times or hashes (003-R010)."""
    async with earlier.connected as client:
        stored = await answers.stored(client)

    _assert_equal(earlier, stored, "stored")


async def test_every_prompt_is_rebuilt_as_it_was_sent(earlier: Earlier) -> None:
    """Turn records of an earlier version still give the exact prompt, plain and economy."""
    sent = earlier.expected["sent"]
    forked_after = earlier.expected["forked_after"]
    async with earlier.connected as client:
        session = await answers.prompts(client, SESSION, turns=len(sent[SESSION]))
        fork = await answers.prompts(client, FORK, turns=forked_after + len(sent[FORK]))

    assert session == sent[SESSION]
    assert fork == [*session[:forked_after], *sent[FORK]]


async def test_events_are_derived_as_they_were(earlier: Earlier) -> None:
    """A listener added after an upgrade receives the whole history of the session."""
    events = [event for event in await answers.events(earlier.url) if event["about"] != OTHER]

    expected = earlier.expected["events"]
    if earlier.imported:  # a bundle does not keep the order of writes within a transaction
        assert _by_transaction(events) == _by_transaction(expected)
    else:
        assert events == expected


def test_commands_print_what_they_printed(earlier: Earlier) -> None:
    """Scripts that read the JSON of a command get the same values; fields may be added.

    Later versions divide an economy prompt into more blocks, with the same sums.
    """
    printed = answers.operations(earlier.url, file_id=earlier.expected["file_id"])
    expected = earlier.expected["operations"]

    for name in ("turn", "turn under the policy"):
        assert _tokens(printed[name]["blocks"]) == _tokens(expected[name]["blocks"])
        for turn in (printed[name], expected[name]):
            for part in (turn, *turn["sections"]):
                del part["blocks"]
    _assert_equal(earlier, _fields_of(printed, expected), "operations")


def test_prompts_have_the_same_form_for_every_api(earlier: Earlier) -> None:
    """A changed message would miss the provider's cache."""
    turns = len(earlier.expected["sent"][SESSION])

    assert answers.prompts_by_form(earlier.url, turns=turns) == earlier.expected["forms"]


async def test_an_old_session_is_resumed_as_it_was_left(earlier: Earlier) -> None:
    """The next prompt is the one that the earlier version would have sent (003-R007).

    Under the economy policy, what arrives now is shortened by the rules of this version.
    """
    async with earlier.connected as client:
        resumed = await answers.resumed(client)

    for values in (*resumed.values(), *earlier.expected["resumed"].values()):
        assert values.pop("economy")[0] > 0
    assert resumed == earlier.expected["resumed"]


async def test_an_old_session_continues(earlier: Earlier, tmp_path: Path) -> None:
    """Turns of two versions form one session, and every prompt can be rebuilt (003-R007)."""
    (tmp_path / "new.md").write_text("New.\n", encoding="utf-8")
    mounts = [{"agentPrefix": "/new", "canonicalPrefix": str(tmp_path)}]
    async with ctxmgr.connect(earlier.url, mounts=mounts, tracking=False) as client:
        session = await client.resume(FORK)
        await session.read("/new/new.md")
        sent = await session.render("Go on.", policy="economy")
        n = await session.end_turn("I go on.")
        await client.pause(FORK)

        *_, last_old, new = await answers.prompts(client, FORK, turns=n)

    assert last_old == earlier.expected["sent"][FORK][-1]
    assert new == answers.digest(sent)


def test_an_old_store_passes_verification(version: Path, tmp_path: Path) -> None:
    """`ctxmgr store verify` recomputes every hash that an earlier version stored."""
    (tmp_path / "store.db").write_bytes(_unpacked(version / "store.db.xz"))

    verified = answers.command(f"sqlite:///{tmp_path}/store.db", "verify")

    assert (verified["transactions"] > 90, verified["faults"]) == (True, [])


async def _import(url: str, bundle: Path) -> None:
    async with ctxmgr.connect(url, tracking=False) as client:
        await client.start(OTHER, system_prompt="Be brief.")
        assert await client.import_session(bundle) == FORK


def _submit(url: str, transactions: list[dict[str, str]]) -> None:
    """Replay the recorded transactions with their original times."""
    with httpx.Client(base_url=url, timeout=SUBMIT_SECONDS) as http:
        for transaction in transactions:
            options = (
                f':xtdb.api/submit-tx-opts {{:xtdb.api/tx-time #inst "{transaction["time"]}"}}'
            )
            content = f"{transaction['body'].removesuffix('}')}, {options}}}".encode()
            headers = {"content-type": "application/edn"}
            http.post("/_xtdb/submit-tx", content=content, headers=headers).raise_for_status()
        http.get("/_xtdb/sync").raise_for_status()


def _fields_of(answer: Any, expected: Any) -> Any:
    """Return an answer in the earlier version's terms, without the fields that it did not print."""
    if isinstance(answer, dict) and isinstance(expected, dict):
        return {
            name: _fields_of(value, expected[name])
            for name, value in answer.items()
            if name in expected
        }
    if isinstance(answer, list) and isinstance(expected, list) and len(answer) == len(expected):
        return [_fields_of(*pair) for pair in zip(answer, expected, strict=True)]
    if isinstance(answer, str) and isinstance(expected, int):  # times were UTC milliseconds
        return round(datetime.fromisoformat(answer).timestamp() * 1000)
    return answer


def _tokens(blocks: list[dict[str, Any]]) -> int:
    return sum(block["tokens"] for block in blocks)


def _assert_equal(earlier: Earlier, answer: dict[str, Any], name: str) -> None:
    expected = earlier.expected[name]
    assert answer.keys() == expected.keys()
    for part in expected:
        if earlier.imported:
            assert portable(answer[part]) == portable(expected[part])
        else:
            assert answer[part] == expected[part]


def _by_transaction(events: list[Any]) -> list[Any]:
    grouped = groupby(events, key=lambda event: event["sequence"][0])
    return [sorted(portable(list(group)), key=str) for _, group in grouped]


def _unpacked(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes())
