"""``ctxmgr compile``: what a prompt would get of the notes, and why. Through ``App`` only."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.asked_models import AskedModel, ModelOption, costs_of
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from ctxmgr.app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNote:
    """A section of the compiled context."""

    name: str
    slot: str
    path: str | None
    topic: str | None
    """The topic that brought it."""
    tokens: int
    score: float | None
    cut_tokens: int
    """Tokens that were cut, since it exceeded its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenNote:
    """Something that was considered and left out."""

    name: str
    slot: str
    reason: str
    tokens: int | None
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledContext:
    """What a prompt with the message would get."""

    text: str
    tokens: int
    budget_tokens: int
    topics: tuple[str, ...]
    included: tuple[ShownNote, ...]
    left_out: tuple[HiddenNote, ...]
    costs: tuple[AskedModel, ...]
    """What the gate's model cost."""
    why: bool
    """Whether a person asked for the reasons instead of the text."""


async def compile_context(
    app: "App",
    message: Annotated[str, Param("What a user would say.")],
    *,
    why: Annotated[bool, Param("Show what is included and left out, and why.")] = False,
    budget: Annotated[
        int | None, Param("The budget in tokens; default: 8192.", metavar="TOKENS")
    ] = None,
    shared: Annotated[
        bool, Param("For a session that others read, which does not see MEMORY.md.")
    ] = False,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> CompiledContext:
    """Show what a prompt would get of the notes.

    The message activates topics and ranks notes as it would in a session. Nothing is stored. With
    --json, the text and the reasons are there.
    """
    from ctxmgr.knowledge.config import CompilerConfig

    if budget is not None:
        CompilerConfig(token_budget=budget)  # refuses what cannot be a budget
    async with app.asked_model(model) as asked:
        library = await app.library(folder, main=not shared, model=asked)
        compiled = await library.compile(message, budget_tokens=budget)
    return CompiledContext(
        text=compiled.text,
        tokens=compiled.tokens,
        budget_tokens=compiled.budget_tokens,
        topics=tuple(dict.fromkeys(each.topic for each in compiled.included if each.topic)),
        included=tuple(
            ShownNote(
                name=each.name,
                slot=str(each.slot),
                path=each.path,
                topic=each.topic,
                tokens=each.tokens,
                score=each.score,
                cut_tokens=each.cut_tokens,
            )
            for each in compiled.included
        ),
        left_out=tuple(
            HiddenNote(
                name=each.name,
                slot=str(each.slot),
                reason=each.reason,
                tokens=each.tokens,
                score=each.score,
            )
            for each in compiled.left_out
        ),
        costs=costs_of(library.gate.ledger, app.prices),
        why=why,
    )


def compiled_text(compiled: CompiledContext) -> str:
    """Return the context, or the reasons for it."""
    if not compiled.why:
        return compiled.text + "\n"
    lines = [f"{compiled.tokens:,} of {compiled.budget_tokens:,} tokens", "", "included"]
    for shown in compiled.included:
        score = "" if shown.score is None else f"  score {shown.score:.3f}"
        cut = f"  {shown.cut_tokens:,} cut" if shown.cut_tokens else ""
        name = f"{shown.slot}:{shown.path}" if shown.path else shown.name
        lines.append(f"  {shown.tokens:>6,}  {name}{score}{cut}")
    lines += ["", "left out"]
    lines += [f"  {hidden.slot}:{hidden.name}  {hidden.reason}" for hidden in compiled.left_out]
    return "\n".join(lines) + "\n"
