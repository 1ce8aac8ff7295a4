"""What an agent does with memories: remember a fact, and read one in full. Commits.

An agent's facts are private to the person for whom it works, are marked as an agent's with their
session, and are never standing instructions: those are laid down by people.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ctxmgr.core.context.layer_tools import LayerTool
from ctxmgr.memory.living import AddedMemory, LivingMemory
from ctxmgr.memory.records.bodies import KEY_CHARS_MAX, VALUE_CHARS_MAX, Fact
from ctxmgr.memory.records.memory import Author, MemoryKind, Origin

LearntName: TypeAlias = Literal[
    "decision", "convention", "preference", "error_fix", "question", "note"
]
"""Kinds that an agent may store."""

ID_CHARS_MAX: Final = 40


async def remember(
    memory: LivingMemory,
    *,
    key: str,
    value: str,
    scope: str | None,
    reason: str | None,
    kind: LearntName,
    files: Sequence[str],
    session: str | None,
    mask: Callable[[str], str],
) -> AddedMemory:
    """Store a fact as an agent's, without its secrets."""
    return await memory.add(
        Fact(
            key=mask(key),
            value=mask(value),
            scope=None if scope is None else mask(scope),
            reason=None if reason is None else mask(reason),
        ),
        kind=MemoryKind(kind),
        author=Author.AGENT,
        origin=Origin(session_id=session),
        tags=files,
    )


class RememberArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(
        min_length=1, max_length=KEY_CHARS_MAX, description="What it is about: 'test runner'."
    )
    value: str = Field(
        min_length=1, max_length=VALUE_CHARS_MAX, description="What holds, such as pytest."
    )
    scope: str | None = Field(default=None, description="Only there: a language, a folder.")
    reason: str | None = Field(default=None, description="Why.")
    kind: LearntName = "note"
    files: list[str] = Field(default_factory=list, description="Files that it is about.")


class ExpandArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(
        min_length=1, max_length=ID_CHARS_MAX, description="The id of a memory, or its beginning."
    )


def memory_tools(memory: LivingMemory, *, mask: Callable[[str], str]) -> tuple[LayerTool, ...]:
    """Return the tools that an agent of ours gets for memories."""

    async def remembering(session: str, args: RememberArguments) -> str:
        added = await remember(
            memory,
            key=args.key,
            value=args.value,
            scope=args.scope,
            reason=args.reason,
            kind=args.kind,
            files=args.files,
            session=session,
            mask=mask,
        )
        if added.known:
            return f"this is known already: {added.memory.id}\n"
        against = "".join(f"it contradicts {pair.memory_a}\n" for pair in added.contradictions)
        return f"remembered as {added.memory.id}\n{against}"

    async def expanding(_session: str, args: ExpandArguments) -> str:
        found = await memory.expand(args.id)
        return f"{found.levels.full}\n"

    return (
        LayerTool(
            name="remember",
            description="Remember a fact in later sessions of this project.",
            arguments=RememberArguments,
            run=remembering,
        ),
        LayerTool(
            name="expand",
            description="Read a memory in full, by the id that the prompt shows for it.",
            arguments=ExpandArguments,
            run=expanding,
        ),
    )
