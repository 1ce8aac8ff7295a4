"""``ctxmgr wrap``: run an agent through the proxy. Starts processes; writes no settings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import NotFound
from ctxmgr.surfaces.operation import STREAMED, Param

if TYPE_CHECKING:
    from ctxmgr.app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapReport:
    """How the agent ended."""

    agent: str = field(metadata=STREAMED)
    exit_code: int = field(metadata=STREAMED)
    joined: bool = field(metadata=STREAMED)
    """Whether it used a proxy that was running already."""


async def wrap(
    app: "App",
    agent: Annotated[
        Literal["claude", "codex", "opencode", "gemini", "pi"], Param("The agent to run.")
    ],
    args: Annotated[tuple[str, ...], Param("Arguments of the agent, after --.", "ARGS")] = (),
    *,
    record_only: Annotated[bool, Param("Record requests, and change none.")] = False,
    fidelity: Annotated[
        float, Param("From 0, cheapest, to 1, closest to what the client sent.", metavar="NUMBER")
    ] = 0.5,
    upstream: Annotated[
        tuple[str, ...],
        Param("The address of a provider, as in openai=https://host; may be repeated.", "NAME=URL"),
    ] = (),
    memory: Annotated[
        Path | None,
        Param("A project: conversations begin with what its sessions have learnt.", "DIR"),
    ] = None,
    knowledge: Annotated[
        Path | None,
        Param("A folder of notes: conversations begin with those that fit their question.", "DIR"),
    ] = None,
) -> WrapReport:
    """Run an agent through the proxy, and write no settings.

    Uses a proxy that runs with the same options, or one that ends with the agent. Addresses of
    providers are those of --upstream, else of the agent's own variables, such as
    ANTHROPIC_BASE_URL. The exit code is the agent's.
    """
    import os
    import shutil

    from ctxmgr.proxy.server import agent_commands
    from ctxmgr.surfaces.operations.agents.agent_process import joined_proxy, run_program

    if shutil.which(agent) is None:
        raise NotFound(f"there is no program {agent}: install it, or extend PATH")
    async with joined_proxy(
        app,
        upstream=upstream,
        record_only=record_only,
        fidelity=fidelity,
        memory=memory,
        knowledge=knowledge,
    ) as (running, joined):
        command = agent_commands.agent_command(
            agent,
            args,
            url=running.url,
            environment=os.environ,
            upstreams=running.upstreams,
            pi_extension=str(Path(agent_commands.__file__).with_name("pi_extension.js")),
        )
        code = await run_program(command.words, environment={**os.environ, **command.environment})
    return WrapReport(agent=agent, exit_code=code, joined=joined)
