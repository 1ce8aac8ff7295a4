"""Run a real model on a task in a sandbox, with the agent loop included in ctxmgr.

    export ANTHROPIC_API_KEY=...
    python examples/real_model.py "add a test for the parser" --folder ~/project

``--model`` selects another model, ``--base-url`` another server with Anthropic's Messages API.
The session is stored in ctxmgr's data folder, or in ``agent.db`` in the folder ``--state``, which
must not be in the project; its token counts are printed at the end.
The sandbox is bubblewrap, or Docker if bubblewrap is not installed, with the project at /workspace
and no network access.
"""

import argparse
import asyncio
import os
import uuid
from pathlib import Path

from ctxmgr import TextDelta, connect, guide, start_sandbox
from ctxmgr.harness.loop import work
from ctxmgr.models.anthropic import BASE_URL, AnthropicModel

SYSTEM_PROMPT = f"""\
You are a careful programmer. Your project is in /workspace.

{guide("economy")}"""


def show(event: object) -> None:
    """Print the model's text while it is streamed."""
    if isinstance(event, TextDelta):
        print(event.text, end="", flush=True)


async def main(arguments: argparse.Namespace) -> None:
    # The default store is in ctxmgr's data folder, which sandboxes hide.
    store = None if arguments.state is None else f"sqlite:///{arguments.state}/agent.db"
    key = os.environ.get("ANTHROPIC_API_KEY")
    sandbox, directory = await start_sandbox(None, folder=arguments.folder)
    try:
        async with (
            AnthropicModel(arguments.model, key=key, base_url=arguments.base_url) as model,
            connect(store, sandbox=sandbox, directory=directory, policy="economy") as client,
        ):
            session_id = f"task-{uuid.uuid4().hex[:8]}"
            session = await client.start(session_id, system_prompt=SYSTEM_PROMPT)
            worked = await work(session, model=model, user=arguments.task, on_event=show)
            await client.pause(session_id)
    finally:
        await sandbox.close()
    usage = worked.ledger.usage
    print(f"\n{session_id}: {worked.outcome} after {len(worked.turns)} turns")
    print(
        f"{usage.prompt_tokens} tokens sent ({usage.cache_read_tokens} from the cache), "
        f"{usage.output_tokens} tokens answered"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run a model on a task in a sandbox.")
    parser.add_argument("task")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--state", type=Path, help="a folder outside --folder")
    parser.add_argument("--model", default="claude-sonnet-4-5")
    parser.add_argument("--base-url", default=BASE_URL)
    asyncio.run(main(parser.parse_args()))
