"""The scripted model knows only what is in its prompt."""

import pytest

from ctxmgr.core.model import AnswerDone, AnswerPart, Request, Stop
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.harness.scripted_model import ScriptedModel, ScriptedPrompt, ScriptedReply, call

POOL = (
    "id=f1 type=file path=/workspace/lib/sum.sh file_type=sh [unread]\n"
    "id=c1 type=toolcall tool=bash status=fail\n"
    "id=c2 type=toolcall tool=bash status=fail\n"
)


def prompt(text: str) -> dict[str, object]:
    system = [{"type": "text", "text": text}]
    return {"system": system, "messages": [{"role": "user", "content": []}]}


async def asked(model: ScriptedModel, text: str = "") -> list[AnswerPart]:
    request = Request(payload=prompt(text), purpose="turn")
    return [piece async for piece in model.stream(request)]


def test_ids_are_taken_from_the_prompt_only() -> None:
    """A script that knew ids would prove nothing about what the prompt shows (003-R190)."""
    seen = ScriptedPrompt(prompt(f"\n{POOL}\nACTIVE_CONTENT id=f1\necho\n"))

    assert seen.file("lib/sum.sh") == "f1"
    assert seen.call("bash", status="fail") == "c2"
    assert seen.shows("f1")
    assert not seen.shows("c1")
    with pytest.raises(NotFound, match="a file missing"):
        seen.file("missing.sh")


def test_under_the_economy_policy_shortened_outputs_have_handles() -> None:
    """Without a list of ids, the script finds what a model would: paths, and marks of folds."""
    payload = prompt("")
    payload["messages"] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": "cat lib/sum.sh\n[#4 +120 tok]",
                    "is_error": True,
                }
            ],
        },
    ]

    seen = ScriptedPrompt(payload)

    assert seen.call("bash", status="fail") == "#4"
    assert seen.call("bash", status="ok") is None
    assert seen.file("lib/sum.sh") == "lib/sum.sh"


async def test_an_answer_calls_tools_or_ends_the_run() -> None:
    """The loop stops when no tool is called."""
    model = ScriptedModel(
        "m", [ScriptedReply("Look.", (call("ls", path="."),)), ScriptedReply("Done.")]
    )

    first, last = [(await asked(model))[-1] for _ in range(2)]

    assert isinstance(first, AnswerDone)
    assert isinstance(last, AnswerDone)
    assert (first.stop, last.stop) == (Stop.TOOLS, Stop.DONE)
    assert first.reply["content"][1]["input"] == {"path": "."}
    assert len(model.received) == 2


async def test_a_script_without_further_steps_raises() -> None:
    """A task that was changed without its script fails at once."""
    with pytest.raises(Incorrect, match="0 answers"):
        await asked(ScriptedModel("m", []))
