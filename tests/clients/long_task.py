"""A task of sixty model calls for real agents, and a provider that checks every request of it.

    main thread    steps in order, over three processes: begun, resumed (and compacted), rewound
    subagent       steps of its own
    others         titles and summaries: a text

Answers carry thinking (Anthropic) or reasoning (OpenAI), which must come back as it was.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.clients.wire_rules import thinking, violations
from tests.proxy.server.events import sse
from tests.proxy.server.scripted_upstream import ReceivedRequest, ScriptedUpstream, answer, stream

Call = tuple[str, dict[str, Any]]

SUMMARY_WORDS: Final = ("Respond with TEXT ONLY", "CONTEXT CHECKPOINT")
"""In the requests with which Claude Code and Codex ask for a summary."""

SUMMARY_TEXT: Final = "<summary>Notes were written, and more will be.</summary>"
SPAWNED: Final = "{agent}"
"""In arguments: the id of the subagent that Codex has started."""

MAIN, SUBAGENT, SUMMARY = "main", "sub", "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class LongStep:
    """One answer: text, calls, and how full it says the window is."""

    calls: Sequence[Call] = ()
    text: str = "Going on."
    tokens: int = 9_000


@dataclass
class LongTaskProvider(ScriptedUpstream):
    """Follows one script in the main thread and another in subagents."""

    main: Sequence[LongStep] = ()
    subagent: Sequence[LongStep] = ()
    threads: dict[str, list[ReceivedRequest]] = field(default_factory=dict)
    """Requests of each agent, in the order in which these began."""
    steps_done: dict[bool, int] = field(default_factory=dict)
    """Of subagents, and of the main agent."""
    summaries: list[ReceivedRequest] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Thinking and reasoning that was sent, by its signature or id."""

    def __post_init__(self) -> None:
        self.otherwise = self._answer

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        request = self.requests[-1]
        path = request.target.partition("?")[0]
        if path not in {"/v1/messages", "/v1/responses"} or request.method != "POST":
            return await answer(b'{"input_tokens": 1000}')(writer)
        body = request.json
        self.violations += [*violations(body), *self._changed_thinking(body)]
        thread, number, step = self._step(request, body)
        build = self._anthropic if path == "/v1/messages" else self._responses
        return await stream(*build(thread, number, step, body))(writer)

    def _step(self, request: ReceivedRequest, body: dict[str, Any]) -> tuple[str, int, LongStep]:
        last = json.dumps(body["input" if "input" in body else "messages"][-1])
        if any(word in last for word in SUMMARY_WORDS):
            self.summaries.append(request)
            return SUMMARY, len(self.summaries), LongStep(text=SUMMARY_TEXT, tokens=20_000)
        named = request.named
        agent = named.get("x-claude-code-agent-id", "")
        spawned = bool(agent or named.get("x-openai-subagent"))
        asked = self.threads.setdefault(agent or named.get("thread-id", ""), [])
        asked.append(request)
        number = self.steps_done.get(spawned, 0)
        self.steps_done[spawned] = number + 1
        steps = self.subagent if spawned else self.main
        step = steps[number] if number < len(steps) else LongStep(text="Done.")
        return SUBAGENT if spawned else MAIN, number, step

    def _changed_thinking(self, body: dict[str, Any]) -> list[str]:
        """Return thinking that is not as it was sent."""
        return [
            f"thinking {key} was changed"
            for key, block in thinking(body)
            if key not in self.made or self.made[key] != block
        ]

    def _anthropic(
        self, thread: str, number: int, step: LongStep, body: dict[str, Any]
    ) -> list[bytes]:
        name = f"{thread}_{number}"
        thought = {
            "type": "thinking",
            "thinking": f'What is next after {name}? “ünïcode” \\ and "quotes".',
            "signature": hashlib.sha256(name.encode()).hexdigest(),
        }
        blocks: list[dict[str, Any]] = [{"type": "text", "text": step.text}]
        if thread != SUMMARY:
            self.made[thought["signature"]] = thought
            blocks.insert(0, thought)
        blocks += [
            {"type": "tool_use", "id": f"toolu_{name}_{index}", "name": tool, "input": args}
            for index, (tool, args) in enumerate(step.calls)
        ]
        usage = {"input_tokens": step.tokens, "cache_read_input_tokens": 0, "output_tokens": 9}
        start = {"id": f"msg_{name}", "type": "message", "role": "assistant", "content": []}
        stop = "tool_use" if step.calls else "end_turn"
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**start, "model": body["model"], "usage": usage}}
        ]
        for index, block in enumerate(blocks):
            begun, deltas = _streamed(block)
            events.append({"type": "content_block_start", "index": index, "content_block": begun})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            ]
            events.append({"type": "content_block_stop", "index": index})
        events += [
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
            {"type": "message_stop"},
        ]
        return sse(*events)

    def _responses(
        self, thread: str, number: int, step: LongStep, body: dict[str, Any]
    ) -> list[bytes]:
        name = f"{thread}_{number}"
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        items: list[dict[str, Any]] = [
            {"type": "message", "id": f"m_{name}", "role": "assistant", "content": content}
        ]
        if thread != SUMMARY:
            sealed = hashlib.sha256(name.encode()).hexdigest()
            thought = {"type": "reasoning", "summary": [], "encrypted_content": sealed}
            self.made[sealed] = thought
            items.insert(0, {**thought, "id": f"rs_{name}"})
        for index, (named, args) in enumerate(step.calls):
            call_id = f"call_{name}_{index}"
            call = {"type": "function_call", "id": f"fc_{name}_{index}", "call_id": call_id}
            space, _, tool = named.rpartition("/")
            arguments = json.dumps(args).replace(SPAWNED, _spawned(body))
            call |= {"name": tool, "arguments": arguments}
            items.append({**call, "namespace": space} if space else call)
        usage = {"input_tokens": step.tokens, "output_tokens": 20}
        usage["total_tokens"] = sum(usage.values())
        response = {"id": f"r_{name}", "object": "response"}
        done = {**response, "status": "completed", "output": items}
        return sse(
            {"type": "response.created", "response": {**response, "status": "in_progress"}},
            *(
                {"type": "response.output_item.done", "output_index": index, "item": item}
                for index, item in enumerate(items)
            ),
            {
                "type": "response.completed",
                "response": {
                    **done,
                    "usage": {**usage, "input_tokens_details": {"cached_tokens": 0}},
                },
            },
        )


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        return {**block, "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    written = json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]


def _spawned(body: dict[str, Any]) -> str:
    found = re.findall(r'\\?"agent_id\\?": ?\\?"([0-9a-f-]+)', json.dumps(body["input"]))
    return str(found[-1]) if found else ""
