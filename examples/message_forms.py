"""Render one context for different providers: Anthropic, OpenAI, plain text.

``render(form=...)`` returns the context in the format of an API, and ``read_answer`` converts that
API's reply into the parts of a turn. A session can switch models at any turn.

    python examples/message_forms.py
"""

import asyncio
import json
from typing import Any

from ctxmgr import Tools, connect, guide
from ctxmgr.messages import anthropic, openai

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"
ANTHROPIC_REPLY = {
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "uname"}},
    ],
    "usage": {"input_tokens": 120, "output_tokens": 20},
}
OPENAI_REPLY = {
    "model": "gpt-5",
    "choices": [{"message": {"role": "assistant", "content": "This is Linux."}}],
    "usage": {"prompt_tokens": 180, "completion_tokens": 10},
}


def show(name: str, payload: Any) -> None:
    print(f"--- {name}\n{payload if isinstance(payload, str) else json.dumps(payload, indent=1)}")


async def main() -> None:
    async with connect("sqlite://:memory:", policy="economy") as client:
        session = await client.start("task-1", system_prompt=SYSTEM_PROMPT)
        definitions = Tools(session).definitions

        # Turn 1 goes to Anthropic: {"system": [...], "messages": [...]}, with cache breakpoints.
        prompt = await session.render("Which system is this?", form="anthropic")
        show("turn 1 for Anthropic", prompt)
        print(f"tools: {anthropic.tool_definitions(definitions)[0]['name']}, ...")
        answer = anthropic.read_answer(ANTHROPIC_REPLY, session_id="task-1", turn=session.turn)
        for call in answer.calls:  # run by this program; Tools.dispatch would run it in a sandbox
            await session.record(call.toolcall_id, tool=call.tool, args=call.args, output="Linux\n")
        await session.end_turn(answer.parts, meta=answer.meta)

        # Turn 2 goes to OpenAI: {"messages": [...]}.
        prompt = await session.render(form="openai")
        show("turn 2 for OpenAI", prompt)
        print(f"tools: {openai.tool_definitions(definitions)[0]['function']['name']}, ...")
        answer = openai.read_answer(
            OPENAI_REPLY, session_id="task-1", turn=session.turn, provider="openai"
        )
        await session.end_turn(answer.parts, meta=answer.meta)

        # The same context as text, for people and for models that take plain text.
        show("turn 3 as text", await session.render("Thank you.", form="text"))
        for turn in session.chat.turns:
            meta = turn.assistant_meta
            print(f"{meta.provider} {meta.model}: {meta.usage}")


if __name__ == "__main__":
    asyncio.run(main())
