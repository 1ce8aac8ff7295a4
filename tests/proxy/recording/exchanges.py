"""Exchanges of a short conversation, as Claude Code has it."""

import json
from typing import Any

import ctxmgr
from ctxmgr.core.model import Usage
from ctxmgr.proxy.engine import Api, Outgoing
from ctxmgr.proxy.recording.recorder import ExchangeRecorder
from ctxmgr.proxy.server.accounting import CacheLoss, RequestAccount
from ctxmgr.proxy.server.exchange import ProxiedExchange
from ctxmgr.proxy.server.providers import Provider
from tests.proxy.server.events import anthropic_stream

SESSION = "proxy-c1"
PICTURE = "A" * 5_000
MARK = {"cache_control": {"type": "ephemeral"}}


def exchange(messages: list[Any], answer: list[bytes], **more: Any) -> ProxiedExchange:
    body = {"model": "m", "system": "Be brief.", "tools": [{"name": "Read"}], "messages": messages}
    received = json.dumps(body).encode()
    values: dict[str, Any] = {
        "provider": Provider.ANTHROPIC,
        "api": Api.ANTHROPIC_MESSAGES,
        "path": "/v1/messages",
        "headers": {},
        "received": received,
        "outgoing": Outgoing(body=received, conversation="c1"),
        "refused": None,
        "status": 200,
        "answer": b"".join(answer),
        "streamed": True,
        "whole": True,
        "model": "claude-sonnet-5-5",
        "usage": Usage(input_tokens=5, output_tokens=7),
        "began_ms": 1_000,
        "ended_ms": 2_000,
        "prepare_seconds": 0.001,
        "first_byte_seconds": 0.01,
    }
    return ProxiedExchange(**{**values, **more})


def conversation() -> list[tuple[list[Any], list[bytes]]]:
    """Three requests, as Claude Code sends them: the mark moves, and a string becomes a list."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a.py"}}
    image = {"type": "image", "source": {"type": "base64", "data": PICTURE}}
    first = {"role": "user", "content": "Read a.py."}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I read."}, call]}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "def a(): ...", **MARK}
    done = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    marked = {"role": "user", "content": [{"type": "text", "text": "Read a.py.", **MARK}]}
    unmarked = {key: value for key, value in result.items() if key != "cache_control"}
    last = {"role": "user", "content": [image, {"type": "text", "text": "And this?"}]}
    return [
        (
            [marked],
            anthropic_stream("I read.", calls=(("toolu_1", "Read", {"file_path": "/a.py"}),)),
        ),
        ([first, said, {"role": "user", "content": [result]}], anthropic_stream("Done.")),
        (
            [first, said, {"role": "user", "content": [unmarked]}, done, last],
            anthropic_stream("A picture."),
        ),
    ]


async def record_conversation(url: str) -> None:
    """Record the conversation in a store, with its last messages shortened, at a loss of 30."""
    async with (
        await ctxmgr.open_store(url) as store,
        ctxmgr.connect(store=store, tracking=False) as client,
    ):
        recorder = ExchangeRecorder(client, store)
        lost = CacheLoss(cause="the client changed message 1", tokens=2_000)
        account = RequestAccount(billed=100.0, baseline=90.0, baseline_prompt=50.0, lost=lost)
        for messages, answer in conversation():
            said = [*messages[:-1], {"role": "user", "content": "shortened"}]
            outgoing = Outgoing(body=exchange(said, []).received, shaped=True, conversation="c1")
            await recorder.record(exchange(messages, answer, outgoing=outgoing), account)
        await recorder.close()
