"""`ctxmgr bench proxy` in small: a session of a few calls."""

import json
from pathlib import Path

import pytest

from ctxmgr.bench.economy.sessions import read_folder
from ctxmgr.bench.proxy import latency
from ctxmgr.bench.proxy.any_proxy import AnyProxy, RecordingUpstream, answer_events
from ctxmgr.bench.proxy.client import answers, requests
from ctxmgr.bench.proxy.run import run
from ctxmgr.bench.proxy.scoring import is_legal
from ctxmgr.errors import Incorrect
from ctxmgr.proxy.engine import Api, Incoming


def silent(_: str) -> None:
    return


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one recorded session, whose outputs are long."""
    messages = [{"role": "system", "text": "Be careful."}, {"role": "user", "text": "Build it."}]
    for n in range(4):
        output = "\n".join(f"step {n} of target_{n}_{line} finished" for line in range(150))
        answer = json.dumps({"tool": "bash", "args": {"command": f"make target_{n}"}})
        messages += [{"role": "assistant", "text": answer}, {"role": "tool", "text": output}]
    (tmp_path / "small.jsonl").write_text(json.dumps({"id": "s1", "messages": messages}))
    return tmp_path


async def test_every_mode_is_compared_with_no_proxy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 35, 40: cost, names kept, requests that an API would refuse, and the added time."""
    monkeypatch.setattr(latency, "STREAMS", 8)
    monkeypatch.setattr(latency, "PIECE_SECONDS", 0.01)
    monkeypatch.setattr(latency, "PAUSE_SECONDS", 0.0)
    monkeypatch.chdir(folder)

    report = await run(quick=True, say=silent, folder=folder)

    assert [row.proxy for row in report.proxies] == ["results", "arguments", "folds"]
    assert all(row.cost < 1 and row.illegal == 0 for row in report.proxies)
    assert all(figure.meets is not False for figure in report.figures)
    assert [figure.what for figure in report.figures[-3:]] == [
        "added time to first byte, p50 (ms)",
        "added time to first byte, p99 (ms)",
        "8 streams at once: lost or incomplete",
    ]
    assert "20 shaped" in report.figures[-3].note


async def test_any_proxy_can_be_measured_by_its_url(folder: Path) -> None:
    """Rule 40: what arrives at the provider counts; here nothing is in between."""
    async with RecordingUpstream(0) as upstream:
        proxy = AnyProxy(f"http://127.0.0.1:{upstream.port}", upstream)
        for body in requests(read_folder(folder)["small"][0]):
            request = Incoming(
                api=Api.ANTHROPIC_MESSAGES, path="/v1/messages", headers={}, body=body
            )
            outgoing = await proxy.prepare(request)
            assert outgoing.body == body
            assert is_legal(json.loads(body))


def test_the_provider_gives_the_recorded_answer(folder: Path) -> None:
    """Rule 40: some proxies shorten nothing unless the next request contains what was answered."""
    session = read_folder(folder)["small"][0]
    for content, body in zip(answers(session), list(requests(session))[1:], strict=False):
        events = [json.loads(event.partition(b"data: ")[2]) for event in answer_events(content)]
        blocks = [event["content_block"] for event in events if "content_block" in event]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        for block, delta in zip(blocks, deltas, strict=True):
            if block["type"] == "tool_use":
                block["input"] = json.loads(delta["partial_json"])
            else:
                block["text"] += delta["text"]
        said = [message for message in json.loads(body)["messages"] if message["role"] != "user"]
        assert said[-1]["content"] == blocks


def test_other_urls_are_refused() -> None:
    """The bench speaks plain HTTP to loopback."""
    with pytest.raises(Incorrect, match="not an http URL"):
        AnyProxy("https://example.com", RecordingUpstream(0))


def test_broken_pairs_are_illegal() -> None:
    """Some proxies send a result without its call."""
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
    assert not is_legal({"messages": [{"role": "user", "content": [result]}], "system": []})
