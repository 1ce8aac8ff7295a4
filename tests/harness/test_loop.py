"""The agent loop with a scripted model, without a sandbox."""

from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.context.assembly import Context, Section
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.harness.loop import work
from ctxmgr.harness.scripted_model import ScriptedModel, ScriptedReply, call
from ctxmgr.messages import anthropic
from tests.core.builders.clients import with_forms


@pytest.mark.parametrize("policy", [None, "economy"])
async def test_a_prompt_is_rendered_once_per_turn(tmp_path: Path, policy: str | None) -> None:
    """A second render of the economy layout costs as much as the first, and may fold again."""
    rendered: list[Context] = []

    def counted(context: Context) -> Any:
        rendered.append(context)
        return anthropic.payload(context)

    model = ScriptedModel(
        "scripted",
        [ScriptedReply("Let me look.", (call("bash", command="ls"),)), ScriptedReply("Done.")],
    )

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        counting = with_forms(client, {"text": counted, "anthropic": counted})
        session = await counting.start("s1", system_prompt="Be careful.")
        worked = await work(session, model=model, user="What is here?", policy=policy)

    assert len(rendered) == len(worked.turns) == 2
    sent_tokens = TokenCounter().count(rendered[1].system_prompt)
    assert worked.turns[1].sections[Section.SYSTEM] == sent_tokens
