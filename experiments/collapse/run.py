"""Measure what collapse saves and costs: the demo's task with it and without.

    python -m experiments.collapse.run                 writes data, report and plot
    python -m experiments.collapse.run --short         one project; prints the figures
    python -m experiments.collapse.run --model NAME    one project, a model as the agent

Every run has its own in-memory store, folder and sandbox. The prompt, the agent and the order of
tasks are fixed; only the window differs.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ctxmgr import Window, connect
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.model import Model
from ctxmgr.harness.demo.task import RULE, SYSTEM_PROMPT, TASK, agent, create_project, tests_pass
from ctxmgr.harness.demo.workplace import Workplace, workplace
from ctxmgr.harness.loop import work
from ctxmgr.messages import anthropic, openai
from ctxmgr.models.open_model import open_model
from experiments.collapse.behaviour import Behaviour, Observer
from experiments.collapse.report import plot, report, table
from experiments.recording import Recording

ROOT: Final = Path(__file__).parent.parent.parent
DATA: Final = Path(__file__).with_name("data.json")
REPORT: Final = ROOT / "docs" / "experiments" / "collapse.md"

PROJECTS: Final = 4
"""Fixed one after the other in one session of 52 turns."""

NEVER: Final = 10**6
"""More turns and calls than any session has."""

PAYLOADS: Final = MappingProxyType({anthropic.API: anthropic.payload, openai.API: openai.payload})

Agents: TypeAlias = Callable[[int], Model]
"""Returns the agent for a project number."""

CONDITIONS: Final[Mapping[str, Window]] = MappingProxyType(
    {
        "collapse": Window(),
        "no collapse": Window(per_turn=NEVER, turns_back=NEVER),
    }
)


def scripted(project: int) -> Model:
    """Return the scripted agent for a project number."""
    return agent(at=f"shop-{project}/", notes="notes")


async def measure(condition: str, *, projects: int, agents: Agents = scripted) -> Behaviour:
    """Let an agent fix the given number of projects in one session, under one condition."""
    with TemporaryDirectory(prefix="ctxmgr-experiment-") as name:
        folder = await asyncio.to_thread(_laid_out, Path(name), projects)
        async with (
            workplace(folder, at="/workspace") as place,
            connect(
                "sqlite://:memory:",
                sandbox=place.sandbox,
                directory=place.directory,
                window=CONDITIONS[condition],
                tracking=False,  # no other process edits here; figures must not depend on timing
            ) as client,
        ):
            session = await client.start(condition.replace(" ", "-"), system_prompt=SYSTEM_PROMPT)
            observer = Observer(session)
            models = await _worked(session, observer, agents, projects)
            solved = await _solved(place, projects)
            proven = await _proven(client, session.session_id, models)
    return Behaviour(
        condition=condition,
        turns=len(observer.tokens),
        activate=len(observer.activated),
        deactivate=len(observer.deactivated),
        folded=len(observer.folded),
        recall_after_prune=len(observer.recalled),
        peak_active=max(observer.active),
        end_active=observer.active[-1],
        first_deactivate=min(observer.deactivated, default=None),
        first_folded=min(observer.folded, default=None),
        solved=solved,
        tasks=projects,
        tokens=tuple(observer.tokens),
        active=tuple(observer.active),
        prompts_proven=proven,
    )


def _laid_out(folder: Path, projects: int) -> Path:
    for n in range(1, projects + 1):
        project = create_project(folder, name=f"shop-{n}")
        with (project / "README.md").open("a", encoding="utf-8") as file:
            file.write(RULE)
    return project.parent


async def _worked(
    session: LiveSession, observer: Observer, agents: Agents, projects: int
) -> list[Recording]:
    """Perform every task; return the models with the prompts they received."""
    models = [Recording(agents(n)) for n in range(1, projects + 1)]
    for n, model in enumerate(models, start=1):
        user = f"{TASK} The project is in shop-{n}."
        await work(session, model=model, user=user, on_event=observer.on_event)
    return models


async def _solved(place: Workplace, projects: int) -> int:
    folders = [f"{place.directory}/shop-{n}" for n in range(1, projects + 1)]
    return sum([await tests_pass(place.sandbox, directory=folder) for folder in folders])


async def _proven(client: Client, session_id: str, models: list[Recording]) -> bool:
    """Rebuild every prompt and return whether each equals what the model received."""
    received = [(model.form, payload) for model in models for payload in model.received]
    for n, (form, payload) in enumerate(received, start=1):
        if PAYLOADS[form](await client.prompt_as_of(session_id, turn=n)) != payload:
            return False
    return True


async def measure_all(*, projects: int, agents: Agents = scripted) -> list[Behaviour]:
    return [await measure(condition, projects=projects, agents=agents) for condition in CONDITIONS]


async def measure_model(name: str, *, api: str, base_url: str | None) -> list[Behaviour]:
    """Run the test with a model over HTTP; its key is in the environment."""
    key = os.environ.get(f"{api.upper()}_API_KEY")
    async with open_model(name, api=api, key=key, base_url=base_url) as model:
        return await measure_all(projects=1, agents=lambda _: model)


def write(runs: list[Behaviour], *, data: Path, to: Path) -> None:
    """Write data, report and plot."""
    to.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", encoding="utf-8")
    to.write_text(report(runs, system_prompt=SYSTEM_PROMPT, task=TASK), encoding="utf-8")
    to.with_suffix(".svg").write_text(plot(runs), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="one project; writes nothing")
    parser.add_argument("--model", help="one project, with this model; writes nothing")
    parser.add_argument("--api", choices=sorted(PAYLOADS), default="anthropic")
    parser.add_argument("--base-url", help="where the model is; default: the API's own provider")
    given: Any = parser.parse_args(arguments)
    if given.model:
        measured = measure_model(given.model, api=given.api, base_url=given.base_url)
        print(table(asyncio.run(measured)))
    elif given.short:
        print(table(asyncio.run(measure_all(projects=1))))
    else:
        write(asyncio.run(measure_all(projects=PROJECTS)), data=DATA, to=REPORT)


if __name__ == "__main__":
    main()
