"""The prompt of a session as a model receives it, with its sizes. Reads the store; writes nothing.

Of an earlier turn it is made again from that turn's record, and hashes to what was sent, or it is
not shown. Now, it is what the next turn would begin with, before anybody has asked anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.app import connect
from ctxmgr.core.assembly import Context, Section
from ctxmgr.core.past import prompt_as_of
from ctxmgr.core.store import Store
from ctxmgr.messages import anthropic, openai, text
from ctxmgr.surfaces.known_turns import NOWHERE, last_record

FORMS: Final[Mapping[str, Callable[[Context], Any]]] = {
    "text": text.payload,
    "anthropic": anthropic.payload,
    "openai": openai.payload,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSize:
    """One section of a prompt."""

    section: str
    blocks: int
    """Objects, turns or contributions in it."""
    chars: int
    bytes: int
    """In UTF-8."""
    tokens: int | None
    """As the model asked for counts; None: none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """A prompt and what it is made of."""

    session_id: str
    turn: int
    form: str
    prompt_hash: str
    """Of the plain form, by its paragraphs; every other form is made from the same."""
    proven: bool
    """It is the hash that was recorded when the prompt was sent."""
    sections: tuple[SectionSize, ...]
    prompt: Any = field(repr=False)
    """One text, or the request's parts as the API takes them."""


async def view_prompt(
    store: Store, session_id: str, *, turn: int | None, form: str, model: str | None
) -> PromptView:
    """Return a session's prompt: of a turn, or as it would be now.

    With a model, tokens are counted as it counts them, as far as that is public.
    """
    if turn is not None:
        context, number = await prompt_as_of(store, session_id, turn=turn), turn
    else:
        context, number = await _now(store, session_id)
    return PromptView(
        session_id=context.session_id,
        turn=number,
        form=form,
        prompt_hash=context.prompt_hash(),
        proven=turn is not None,
        sections=_sizes(context, model),
        prompt=FORMS[form](context),
    )


async def _now(store: Store, session_id: str) -> tuple[Context, int]:
    record = await last_record(store, session_id)
    mounts = record.mounts if record else ()
    own = NOWHERE if mounts else None
    async with connect(store=store, mounts=mounts, filesystem_id=own, tracking=False) as client:
        live = await client.visit(session_id)
        return live.context(), live.turn


def _sizes(context: Context, model: str | None) -> tuple[SectionSize, ...]:
    tokens = _tokens(context, model) if model else {}
    return tuple(
        SectionSize(
            section=str(section),
            blocks=len(texts),
            chars=sum(map(len, texts)),
            bytes=sum(len(each.encode()) for each in texts),
            tokens=tokens.get(str(section)),
        )
        for section in Section
        if (texts := [block.text for block in context.section(section)])
    )


def _tokens(context: Context, model: str) -> dict[str, int]:
    from ctxmgr.core.tokens import TokenCounter  # a vocabulary takes longer than a prompt
    from ctxmgr.core.vocabularies import vocabulary

    return TokenCounter(vocabulary(model)).count_sections(context.blocks())
