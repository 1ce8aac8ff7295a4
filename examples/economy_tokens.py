"""Compare the tokens of economy prompts with those of an append-only prompt.

The same session is rendered in two ways. Append-only is what most harnesses send: every message
and every tool output in full. Under ``policy="economy"`` long outputs are folded to their first and
last lines, failures and names, with a handle that brings the whole text back.

    python examples/economy_tokens.py
"""

import asyncio

from ctxmgr import Economy, TokenCounter, connect, toolcall_part, vocabulary

COMMANDS = ["make build", "make test", "cat build.log", "make lint", "git log --stat"]


def output(command: str) -> str:
    """Return a long output in which only one line matters."""
    lines = [f"{command}: step {n} finished in {n % 7} ms" for n in range(300)]
    lines[200] = f"FAILED: {command}: no such symbol parse_header"
    return "\n".join(lines) + "\n"


async def main() -> None:
    counter = TokenCounter(vocabulary("gpt-4o"))
    appended = "You are careful.\nuser: Find out why the build fails.\n"
    appended_sum = economy_sum = 0

    policy = Economy(fidelity=0.5)  # from 0 (lean) to 1 (faithful); "economy" means 0.5
    async with connect("sqlite://:memory:", policy=policy) as client:
        session = await client.start("task-1", system_prompt="You are careful.")
        user = "Find out why the build fails."
        print("turn  append-only  economy")
        for number, command in enumerate(COMMANDS, start=1):
            prompt = await session.render(user)
            appended_tokens, economy_tokens = counter.count(appended), counter.count(prompt)
            print(f"{number:4}  {appended_tokens:11}  {economy_tokens:7}")
            appended_sum += appended_tokens
            economy_sum += economy_tokens

            call, args = f"call-{number}", {"command": command}
            await session.record(call, tool="bash", args=args, output=output(command))
            await session.end_turn([toolcall_part(call, call_id=call, tool="bash", args=args)])
            appended += f"assistant: bash {args}\n{output(command)}"
            user = ""

        folded = await session.render()
        await session.activate("#1")  # the handle of the first output
        unfolded = await session.render()

    print(f" sum  {appended_sum:11}  {economy_sum:7}")
    assert "FAILED: make build: no such symbol parse_header" in folded
    assert output("make build") not in folded
    assert output("make build") in unfolded


if __name__ == "__main__":
    asyncio.run(main())
