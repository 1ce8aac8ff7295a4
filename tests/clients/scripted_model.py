"""A model on loopback that follows a script: Anthropic, OpenAI Responses and Gemini, streamed."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"input_tokens": 20, "output_tokens": 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer: text, and calls as (tool, arguments)."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()


@dataclass(slots=True)
class ScriptedModel:
    """Answers requests that offer tools with the next step, and others with a word."""

    steps: list[Step]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of all requests that offered tools."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> tuple[int, Step]:
        with self.lock:
            if not body.get("tools"):
                return 0, Step(text="title")
            self.requests.append(body)
            number = len(self.requests)
            last = Step(text="Nothing more.")
            return number, self.steps[number - 1] if number <= len(self.steps) else last


@contextmanager
def scripted_model(*steps: Step) -> Iterator[ScriptedModel]:
    """Serve a script on a free port."""
    model = ScriptedModel(list(steps))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            self._send(b'{"data": [], "models": []}', "application/json")

        def do_HEAD(self) -> None:
            self._send(b"", "text/plain")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
            path = self.path.partition("?")[0]
            if path.endswith("/count_tokens"):
                self._send(b'{"input_tokens": 100}', "application/json")
            elif path.endswith("/messages"):
                number, step = model.answer(body)
                message = anthropic_message(number, step, model=body["model"])
                if body.get("stream"):
                    self._send(events(anthropic_events(message)), "text/event-stream")
                else:
                    self._send(json.dumps(message).encode(), "application/json")
            elif path.endswith(":streamGenerateContent"):
                self._send(gemini_events(*model.answer(body)), "text/event-stream")
            elif path.endswith(":generateContent"):
                answer = gemini_answer(*model.answer(body))
                self._send(json.dumps(answer).encode(), "application/json")
            elif path.endswith("/responses"):
                self._send(events(response_events(*model.answer(body))), "text/event-stream")
            else:
                self._send(b"{}", "application/json")

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def events(named: Sequence[dict[str, Any]]) -> bytes:
    lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in named)
    return "".join(lines).encode()


def anthropic_message(number: int, step: Step, *, model: str) -> dict[str, Any]:
    texts = [{"type": "text", "text": step.text}] if step.text else []
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}_{n}", "name": name, "input": args}
        for n, (name, args) in enumerate(step.calls)
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [*texts, *calls],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def anthropic_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    start = {**message, "content": [], "stop_reason": None}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        found += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": USAGE["output_tokens"]}
    return [
        *found,
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


def gemini_answer(number: int, step: Step) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": step.text}] if step.text else []
    parts += [
        {"functionCall": {"id": f"call_{number}_{n}", "name": name, "args": args}}
        for n, (name, args) in enumerate(step.calls)
    ]
    said = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 9, "totalTokenCount": 29}
    return {"candidates": [said], "usageMetadata": counts, "responseId": f"r_{number}"}


def gemini_events(number: int, step: Step) -> bytes:
    return f"data: {json.dumps(gemini_answer(number, step))}\n\n".encode()


def response_events(number: int, step: Step) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if step.text:
        text = {"type": "output_text", "text": step.text, "annotations": []}
        items.append(
            {
                "type": "message",
                "id": f"m_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        )
    for n, (name, args) in enumerate(step.calls):
        call: dict[str, Any] = {"type": "function_call", "id": f"fc_{number}_{n}"}
        space, _, tool = name.rpartition("/")
        call |= {"call_id": f"call_{number}_{n}", "name": tool, "arguments": json.dumps(args)}
        items.append({**call, "namespace": space} if space else call)
    usage = {
        "input_tokens": 150,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 159,
    }
    response = {"id": f"resp_{number}", "object": "response"}
    found: list[dict[str, Any]] = [
        {
            "type": "response.created",
            "response": {**response, "status": "in_progress", "output": []},
        }
    ]
    for index, item in enumerate(items):
        place = {"output_index": index, "item": item}
        found += [
            {"type": "response.output_item.added", **place},
            {"type": "response.output_item.done", **place},
        ]
    done = {**response, "status": "completed", "output": items, "usage": usage}
    return [*found, {"type": "response.completed", "response": done}]
