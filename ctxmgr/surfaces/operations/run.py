"""``ctxmgr run``: a small agent on any model. Prints what it does as it runs."""

from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.core.model import OUTPUT_TOKENS_MAX
from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from ctxmgr.app import App
    from ctxmgr.experience.xdb import XDB
    from ctxmgr.harness.loop_events import LoopEvent
    from ctxmgr.harness.narrator import Narrator
    from ctxmgr.harness.run import Assignment
    from ctxmgr.knowledge.library import Library
    from ctxmgr.surfaces.operations.run_flags import RunFlags
    from ctxmgr.surfaces.views.run_report import RunReport


async def run(
    app: "App",
    task: Annotated[
        str | None, Param("What to do; not needed to continue an unfinished session.")
    ] = None,
    *,
    workspace: Annotated[
        Path | None, Param("The folder to work in; default: the current one.", metavar="DIR")
    ] = None,
    model: Annotated[
        str | None, Param("The model, by its provider's name; default: the setting.")
    ] = None,
    api: Annotated[
        Literal["anthropic", "openai"] | None, Param("The API of the model's server.")
    ] = None,
    base_url: Annotated[
        str | None, Param("The server's address; default: the provider's own.", metavar="URL")
    ] = None,
    sandbox: Annotated[
        Literal["bubblewrap", "docker", "host"] | None,
        Param("Where commands run; default: the best available. host isolates nothing."),
    ] = None,
    network: Annotated[bool, Param("Let commands in the sandbox use the network.")] = False,
    policy: Annotated[
        Literal["plain", "compact", "economy"] | None,
        Param("How prompts are rendered; default: as the session's were, or economy."),
    ] = None,
    session: Annotated[
        str | None, Param("Continue this session; it keeps its workspace and model.")
    ] = None,
    take_over: Annotated[
        bool, Param("Continue the session even if another process has it open.")
    ] = False,
    max_turns: Annotated[int | None, Param("Stop after this many turns; default: 50.")] = None,
    max_usd: Annotated[
        float | None,
        Param("Stop before a call that would cost more than is left of this many dollars."),
    ] = None,
    experience: Annotated[
        Path | None,
        Param("Record experience in this folder; default: the setting.", metavar="DIR"),
    ] = None,
    knowledge: Annotated[
        Path | None,
        Param("Show what fits of the notes in this folder; default: the setting.", metavar="DIR"),
    ] = None,
    memory: Annotated[
        bool, Param("Show what earlier sessions taught, and learn from this one.")
    ] = False,
    output_tokens_max: Annotated[
        int, Param("Tokens of one answer; a model that writes long files needs more.")
    ] = OUTPUT_TOKENS_MAX,
) -> "RunReport":
    """Let a model work on a task in a sandbox.

    ctxmgr manages its context. The model's words and tool calls are printed as they come.
    Interrupt it (Ctrl-C) and continue later with --session: every finished turn is stored. API keys
    come from the settings, or from ANTHROPIC_API_KEY and OPENAI_API_KEY.
    """
    from ctxmgr.harness import run as running
    from ctxmgr.harness.loop import TURNS_MAX
    from ctxmgr.harness.narrator import Narrator
    from ctxmgr.surfaces.local_state import index_file
    from ctxmgr.surfaces.operations.run_flags import RunFlags, model_of
    from ctxmgr.surfaces.views.run_report import report, resume_command

    store = await app.store()
    flags = RunFlags(
        session=session,
        task=task,
        workspace=workspace,
        model=model,
        api=api,
        base_url=base_url,
        sandbox=sandbox,
        network=network,
        policy=policy,
    )
    assignment = await _assignment(app, flags)
    search = index_file(app.loaded.settings.store)
    make_private_folder(search.parent)
    narrator = Narrator(app.write)
    resume = resume_command(app.loaded, assignment)
    async with model_of(app.loaded, assignment) as asked, _experience(app, experience) as xdb:
        try:
            with _event_handler(app, assignment.api, narrator) as on_event:
                ran = await running.run(
                    store,
                    assignment,
                    model=asked,
                    task=task,
                    max_turns=TURNS_MAX if max_turns is None else max_turns,
                    max_usd=max_usd,
                    prices=app.prices,
                    output_tokens_max=output_tokens_max,
                    on_event=on_event,
                    search=search,
                    audit=app.audit_folder(),
                    experience=xdb,
                    knowledge=await _knowledge(app, knowledge),
                    memory=memory or app.loaded.settings.memory,
                    take_over=take_over,
                )
        except CtxmgrError:
            if narrator.opened:
                narrator.line(f"every finished turn is stored; continue with: {resume}")
            raise
    narrator.line("")
    return report(ran, resume=resume, prices=app.prices)


async def _knowledge(app: "App", folder: Path | None) -> "Library | None":
    """Open the notes that the run uses, if there is a folder for them."""
    if folder is None and app.loaded.settings.knowledge is None:
        return None
    return await app.library(folder)


async def _assignment(app: "App", flags: "RunFlags") -> "Assignment":
    """Return what to do and where, and remember on this machine what was chosen."""
    from ctxmgr.harness.run import load_assignment
    from ctxmgr.sandboxes.start import HOST, WORKSPACE
    from ctxmgr.settings import state_dir
    from ctxmgr.surfaces.local_state import remember_folder, store_key
    from ctxmgr.surfaces.operations.run_flags import choices_of
    from ctxmgr.trust import RunChoices

    session, where = flags.session, store_key(app.loaded.settings.store)
    previous = None if session is None else await load_assignment(await app.store(), session)
    confirmed = RunChoices.load(state_dir(), store=where, session=session) if session else None
    assignment = flags.assignment(app.loaded, previous, confirmed=confirmed)
    choices_of(assignment).save(state_dir(), store=where, session=assignment.session)
    remember_folder(
        app,
        assignment.session,
        folder=Path(assignment.workspace),
        agent_prefix=None if assignment.sandbox == HOST else WORKSPACE,
    )
    return assignment


@asynccontextmanager
async def _experience(app: "App", folder: Path | None) -> "AsyncIterator[XDB | None]":
    """Open the experience that the run records, if there is a folder for it."""
    folder = folder or app.experience_folder()
    if folder is None:
        yield None
        return
    async with app.xdb(folder, create=True) as xdb:
        yield xdb


@contextmanager
def _event_handler(
    app: "App", provider: str, narrator: "Narrator"
) -> "Iterator[Callable[[LoopEvent], None]]":
    """Show events to the person, and send them to OpenTelemetry if that is enabled."""
    if not app.loaded.settings.telemetry:
        yield narrator.on_event
        return
    from ctxmgr.integrations.telemetry import Telemetry

    if not Telemetry.is_configured():
        app.say(
            "telemetry is on, but no OpenTelemetry SDK is configured, so nothing is sent: run "
            "`opentelemetry-instrument ctxmgr run …`"
        )
    with Telemetry(provider=provider) as telemetry:

        def on_event(event: "LoopEvent") -> None:
            telemetry.on_event(event)
            narrator.on_event(event)

        yield on_event
