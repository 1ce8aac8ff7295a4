"""Rebuild the prompts of earlier turns, and fork the session from one of them.

Each turn stores a record of its prompt. ``prompt_as_of`` rebuilds the prompt from that record,
on any machine, and raises ``Corrupt`` if a single byte differs from what was sent.

    python examples/past_prompts.py
"""

import asyncio
import tempfile
from pathlib import Path

from ctxmgr import TokenCounter, connect, guide

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"
QUESTIONS = ["Which port?", "Are you sure?", "And the host?"]
ANSWERS = ["8080.", "The file says so.", "It says nothing about a host."]


async def main(folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    config = project / "server.toml"
    config.write_text("port = 8080\n", encoding="utf-8")

    store = f"sqlite:///{folder}/agent.db"
    async with connect(store, directory=str(project), policy="economy") as client:
        session = await client.open("task-1", system_prompt=SYSTEM_PROMPT)
        await session.read("server.toml")
        sent = []
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
            sent.append(await session.render(question))
            await session.end_turn(answer)
        config.write_text("port = 9090\n", encoding="utf-8")  # earlier prompts do not change

        counter = TokenCounter()
        for turn, text in enumerate(sent, start=1):
            context = await client.prompt_as_of("task-1", turn=turn)
            assert context.text() == text
            counts = counter.count_sections(context.blocks())
            tokens = ", ".join(f"{section} {count}" for section, count in counts.items())
            print(f"turn {turn}: hash {context.prompt_hash()[:12]}; tokens: {tokens}")

        first = await client.prompt_as_of("task-1", turn=1)
        print(f"turn 1 ended with:\n{first.user}")

        fork = await client.fork("task-1", turn=1, new_session_id="task-1b")
        await fork.render("Then change it to 7070.")
        await fork.end_turn("Changed.")
        print(f"the fork has {len(fork.chat.turns)} turns, the original {session.turn - 1}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
