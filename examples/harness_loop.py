"""A complete agent loop: render the prompt, ask the model, run its tools, store the turn.

The model is a list of scripted replies, so that the program runs without an API key. To use a real
one, replace ``ask`` with a call to your provider and return its reply as a dict.

    python examples/harness_loop.py

The session is kept: the program prints the folder, and continues the session if it is given that
folder as its argument.

Commands run on this machine without isolation; examples/sandboxed_tools.py shows a sandbox.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from ctxmgr import Host, Tools, connect, guide
from ctxmgr.messages import anthropic

SYSTEM_PROMPT = f"You are a careful programmer.\n\n{guide('economy')}"
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


async def ask(step: int, prompt: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model's reply: {"content": [...]}, as in Anthropic's Messages API.

    With the ``anthropic`` package this is::

        reply = await client.messages.create(model=..., max_tokens=4096, tools=tools, **prompt)
        return reply.to_dict()
    """
    print(f"step {step + 1}: {len(prompt['messages'])} messages, {len(tools)} tools")
    return {"content": REPLIES[step]}


async def main(folder: Path) -> None:
    project = folder / "project"  # the store is not in the folder that the agent works in
    project.mkdir(exist_ok=True)
    sandbox = await Host.start()
    try:
        store = f"sqlite:///{folder}/agent.db"
        async with connect(
            store, sandbox=sandbox, directory=str(project), policy="economy"
        ) as client:
            session = await client.open("task-1", system_prompt=SYSTEM_PROMPT)
            tools, user, step = Tools(session), TASK, 0
            definitions = anthropic.tool_definitions(tools.definitions)
            while True:
                prompt = await session.render(user, form="anthropic")
                reply = await ask(step, prompt, definitions)
                answer = anthropic.read_answer(
                    reply, session_id="task-1", turn=session.turn, unique_ids=False
                )  # the ids in the script are the same in each run; those of a provider are unique
                for call in answer.calls:
                    done = await tools.dispatch(call.toolcall_id, name=call.tool, args=call.args)
                    print(f"  {call.tool}: {'ok' if done.ok else 'failed'}: {done.message.strip()}")
                await session.end_turn(answer.parts, meta=answer.meta)
                if not answer.calls:
                    break
                user, step = (
                    "",
                    step + 1,
                )  # the next turn only shows the model what its tools returned
            print(reply["content"][-1]["text"])
    finally:
        await sandbox.close()


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    asyncio.run(main(folder.resolve()))
    print(f"the session is in {folder}/agent.db; run this again with {folder} to continue it")
