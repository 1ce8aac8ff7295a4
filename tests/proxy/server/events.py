"""Event streams as the three APIs send them."""

import json
from typing import Any


def sse(*events: dict[str, Any], named: bool = True) -> list[bytes]:
    return [
        (f"event: {event['type']}\n" if named else "").encode()
        + b"data: "
        + json.dumps(event).encode()
        + b"\n\n"
        for event in events
    ]


def anthropic_stream(
    text: str = "Hello",
    *,
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (),
    message_id: str = "msg_1",
    **usage: int,
) -> list[bytes]:
    """An answer of Anthropic's API; ``usage`` are its counts."""
    counts = {"input_tokens": 5, "cache_read_input_tokens": 0, "output_tokens": 1, **usage}
    start = {"id": message_id, "type": "message", "role": "assistant", "model": "claude-sonnet-5-5"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "content": [], "usage": counts}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        },
        {"type": "content_block_stop", "index": 0},
    ]
    for index, (call_id, name, args) in enumerate(calls, start=1):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": json.dumps(args)},
            },
            {"type": "content_block_stop", "index": index},
        ]
    stop = "tool_use" if calls else "end_turn"
    events += [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return sse(*events)
