"""A harness in another language takes part in a session over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxmgr import connect
from tests.surfaces.http.servers import Server, serving


@pytest.fixture
async def url(home: Path) -> str:
    address = f"sqlite:///{home}/sessions.db"
    async with connect(address, tracking=False):
        return address


@pytest.fixture
def server(url: str) -> Iterator[Server]:
    with serving(url) as running:
        yield running


async def test_a_harness_takes_part_over_http(server: Server, url: str, tmp_path: Path) -> None:
    """Start, render, record, end a turn: all that a loop needs, and a record that is proven."""
    secret = tmp_path / "secret.txt"
    secret.write_text("of the server's machine", encoding="utf-8")
    started = server.post("/start", session="s1", system_prompt="You are careful.").json()
    first = server.post("/render", session="s1", user="What is in a.txt?").json()
    call = {"session": "s1", "call_id": "c1", "tool": "read", "args": f'{{"path": "{secret}"}}'}
    recorded = [server.post("/record", **call, output="port = 8080").json() for _ in range(2)]
    answer = {"turn": 1, "user": "What is in a.txt?", "answer": "I look.", "model": "m1"}
    ended = [server.post("/end-turn", session="s1", **answer).json() for _ in range(2)]
    second = server.post("/render", session="s1", form="anthropic").json()
    last = server.post("/end-turn", session="s1", turn=2, answer="Port 8080.").json()

    assert started == {"session_id": "s1", "turn": 1, "policy": "economy"}
    assert first["turn"] == 1
    assert "What is in a.txt?" in str(first["request"]["messages"])
    assert recorded[0] == recorded[1]
    assert (recorded[0]["object_id"], recorded[0]["characters"]) == ("s1:1:c1", 11)
    assert [(turn["turn"], turn["tool_calls"], turn["repeated"]) for turn in ended] == [
        (1, 1, False),
        (1, 1, True),
    ]
    assert "port = 8080" in str(second["request"])
    assert "You are careful." in str(second["request"]["system"])
    assert last["turn"] == 2
    async with connect(url, tracking=False) as client:
        session = await client.resume("s1")
        prompt = await client.prompt_as_of("s1", turn=2)
        assert [turn.user for turn in session.chat.turns] == ["What is in a.txt?", ""]
        assert session.chat.turns[0].assistant[1]["call_id"] == "c1"
        assert "port = 8080" in prompt.text()
        assert list(session.sets.session_index) == ["s1:1:c1"], "the server's file was read"


def test_requests_that_do_not_fit_are_refused(server: Server) -> None:
    """Each says what is wrong, and nothing is stored."""
    server.post("/start", session="s1")

    again = server.post("/start", session="s1")
    missing = server.post("/render", session="nobody")
    args = server.post("/record", session="s1", call_id="c", tool="t", args="[1]")
    later = server.post("/end-turn", session="s1", turn=3, answer="x")
    server.post("/end-turn", session="s1", turn=1, user="hello", answer="x")
    other = server.post("/end-turn", session="s1", turn=1, user="hello", answer="y")

    assert [each.status_code for each in (again, missing, args, later, other)] == [
        *(400, 404, 400, 400, 409)
    ]
    assert "must be a JSON object" in args.json()["error"]["message"]
    assert "the current one is 1" in later.json()["error"]["message"]


def test_a_change_of_another_client_is_seen(server: Server, url: str) -> None:
    """The server keeps sessions open; it must not answer from what it read before."""
    server.post("/start", session="s1")
    server.post("/render", session="s1", user="one")
    with serving(url) as other:
        other.post("/end-turn", session="s1", turn=1, user="one", answer="by the other")

    prompt = server.post("/render", session="s1", user="two", form="text").json()

    assert prompt["turn"] == 2
    assert "by the other" in prompt["text"]
