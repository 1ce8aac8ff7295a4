"""``ctxmgr run``: a small agent of our own, on any model. Tells a person as it goes."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.core.model import OUTPUT_TOKENS_MAX
from ctxmgr.errors import CtxmgrError
from ctxmgr.surfaces.catalogue import Param

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctxmgr.app import App
    from ctxmgr.harness.happenings import Happening
    from ctxmgr.surfaces.narration import Narrator
    from ctxmgr.surfaces.run_reports import RunReport


async def run(
    app: "App",
    task: Annotated[
        str | None, Param("What to do; a session that has something left to do needs none.")
    ] = None,
    *,
    workspace: Annotated[
        Path | None, Param("The folder to work in; default: this one.", metavar="DIR")
    ] = None,
    model: Annotated[
        str | None, Param("What its provider calls the model; default: the setting.")
    ] = None,
    api: Annotated[
        Literal["anthropic", "openai"] | None, Param("What the model's server speaks.")
    ] = None,
    base_url: Annotated[
        str | None, Param("Where it is; default: the API's own provider.", metavar="URL")
    ] = None,
    sandbox: Annotated[
        Literal["bubblewrap", "docker", "host"] | None,
        Param("Where commands run; default: the best there is. host isolates nothing."),
    ] = None,
    network: Annotated[bool, Param("Let commands in the sandbox use the network.")] = False,
    policy: Annotated[
        Literal["plain", "economy"] | None,
        Param("How prompts are rendered; default: plain, or as the session was."),
    ] = None,
    session: Annotated[
        str | None, Param("Go on with this session; it keeps its workspace and model.")
    ] = None,
    turns_max: Annotated[int | None, Param("Stop after so many turns; default: 50.")] = None,
    output_tokens_max: Annotated[
        int, Param("Tokens of one answer; a model that writes long files needs more.")
    ] = OUTPUT_TOKENS_MAX,
) -> "RunReport":
    """Let a model work on a task in a sandbox, with a context that ctxmgr keeps.

    What it says and does is shown as it happens. Interrupt it (Ctrl-C) and go on later with
    --session: every finished turn is stored. Keys of the model's server come from the settings, or
    from ANTHROPIC_API_KEY and OPENAI_API_KEY.
    """
    from ctxmgr.harness import running
    from ctxmgr.harness.loop import TURNS_MAX
    from ctxmgr.surfaces.narration import Narrator
    from ctxmgr.surfaces.orders import Orders, model_of
    from ctxmgr.surfaces.recall_operation import index_file
    from ctxmgr.surfaces.run_reports import report, resume_command

    store = await app.store()
    orders = Orders(
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
    known = None if session is None else await running.load_assignment(store, session)
    assignment = orders.assignment(app.loaded, known)
    search = index_file(app.loaded.settings.store)
    search.parent.mkdir(parents=True, exist_ok=True)
    narrator = Narrator(app.write)
    resume = resume_command(app.loaded, assignment)
    async with model_of(app.loaded, assignment) as asked:
        try:
            with _hearing(app, assignment.api, narrator) as hear:
                ran = await running.run(
                    store,
                    assignment,
                    model=asked,
                    task=task,
                    turns_max=TURNS_MAX if turns_max is None else turns_max,
                    output_tokens_max=output_tokens_max,
                    hear=hear,
                    search=search,
                )
        except CtxmgrError:
            if narrator.opened:
                narrator.line(f"every finished turn is stored; go on with: {resume}")
            raise
    narrator.line("")
    return report(ran, resume=resume)


@contextmanager
def _hearing(
    app: "App", provider: str, narrator: "Narrator"
) -> "Iterator[Callable[[Happening], None]]":
    """Let the person hear the run, and OpenTelemetry if that is set."""
    if not app.loaded.settings.telemetry:
        yield narrator.hear
        return
    from ctxmgr.integrations.telemetry import Telemetry

    with Telemetry(provider=provider) as telemetry:

        def hear(happening: "Happening") -> None:
            telemetry.hear(happening)
            narrator.hear(happening)

        yield hear
