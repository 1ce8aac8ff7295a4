"""A complete agent loop: render the prompt, ask the model, run its tools, store the turn.

The model is a list of scripted replies, so that the program runs without an API key. To use a real
one, replace ``ask`` with a call to your provider and return its reply as a dict.

    python examples/harness_loop.py

Commands run on this machine without isolation; examples/sandboxed_tools.py shows a sandbox.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from ctxmgr import Host, Tools, connect
from ctxmgr.messages import anthropic

TASK = "How many lines of notes.txt mention a port?"
REPLIES = [
    [
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "write",
            "input": {"path": "notes.txt", "content": "port 8080\nhost db\nport 5432\n"},
        }
    ],
    [
        {"type": "text", "text": "I count the lines."},
        {
            "type": "tool_use",
            "id": "toolu_2",
            "name": "bash",
            "input": {"command": "grep -c port notes.txt"},
        },
    ],
    [{"type": "text", "text": "Two lines mention a port."}],
]


async def ask(turn: int, prompt: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model's reply: {"content": [...]}, as in Anthropic's Messages API.

    With the ``anthropic`` package this is::

        reply = await client.messages.create(model=..., max_tokens=4096, tools=tools, **prompt)
        return reply.to_dict()
    """
    print(f"turn {turn}: {len(prompt['messages'])} messages, {len(tools)} tools")
    return {"content": REPLIES[turn - 1]}


async def main(folder: Path) -> None:
    project = folder / "project"  # the store is not in the folder that the agent works in
    project.mkdir()
    sandbox = await Host.start()
    try:
        store = f"sqlite:///{folder}/agent.db"
        async with connect(store, sandbox=sandbox, directory=str(project)) as client:
            session = await client.start("task-1", system_prompt="You are a careful programmer.")
            tools, user = Tools(session), TASK
            definitions = anthropic.tool_definitions(tools.definitions)
            while True:
                prompt = await session.render(user, form="anthropic", policy="economy")
                reply = await ask(session.turn, prompt, definitions)
                answer = anthropic.read_answer(reply, session_id="task-1", turn=session.turn)
                for call in answer.calls:
                    done = await tools.dispatch(call.toolcall_id, name=call.tool, args=call.args)
                    print(f"  {call.tool}: {'ok' if done.ok else 'failed'}: {done.message.strip()}")
                await session.end_turn(answer.parts, meta=answer.meta)
                if not answer.calls:
                    break
                user = ""  # the next turn only shows the model what its tools returned
            print(reply["content"][-1]["text"])
    finally:
        await sandbox.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
