"""The form of commit messages, and who writes the summary."""

from collections.abc import AsyncGenerator

import pytest

from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta
from ctxmgr.errors import Incorrect, ModelUnavailable
from ctxmgr.knowledge.repository.commit_messages import (
    CommitKind,
    ask_for_summary,
    commit_message,
    generate_commit_message,
    session_of,
)
from ctxmgr.knowledge.repository.memory_git import MemoryGit

DIFF = """\
diff --git a/knowledge/journal/2026-11-18.md b/knowledge/journal/2026-11-18.md
new file mode 100644
--- /dev/null
+++ b/knowledge/journal/2026-11-18.md
@@ -0,0 +1,2 @@
+one
+two
diff --git a/knowledge/projects/engine/context.md b/knowledge/projects/engine/context.md
--- a/knowledge/projects/engine/context.md
+++ b/knowledge/projects/engine/context.md
@@ -1 +1 @@
-old
+new
diff --git a/topics/mail.md b/topics/mail.md
deleted file mode 100644
"""


class Scripted:
    """A model that answers with one text, or not at all."""

    name = "scripted"
    form = "text"
    unique_ids = True

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.requests.append(request)
        if self.answer is None:
            raise ModelUnavailable("down")
        yield TextDelta(text=self.answer)
        charge = Charge(purpose=request.purpose, model=self.name, usage=None)
        yield AnswerDone(reply={}, stop=Stop.DONE, charge=charge)


def test_a_message_has_kind_summary_body_and_session() -> None:
    """002-R063, 002-R064, 002-A07: the session is always the last line."""
    message = commit_message(
        CommitKind.MEMORY, "learn\n a thing", body="a | +1 -0", session="raw/conversations/x.md"
    )

    assert message == "memory: learn a thing\n\na | +1 -0\n\nSession: raw/conversations/x.md\n"
    assert session_of(message) == "raw/conversations/x.md"
    assert [str(kind) for kind in CommitKind] == [
        *("conversation", "memory", "identity", "maintenance", "explore", "extract")
    ]
    with pytest.raises(Incorrect):
        commit_message(CommitKind.MEMORY, " ")
    with pytest.raises(Incorrect):
        commit_message(CommitKind.MEMORY, "x", session="a\nSession: b")


def test_the_summary_says_which_notes_changed() -> None:
    """002-R244, 002-R065: without a model, by rules."""
    summary = generate_commit_message(DIFF)

    assert summary == "add journal 2026-11-18; update engine/context; remove mail"
    assert generate_commit_message("") == "no changes"


def test_a_model_sees_the_beginning_and_adds_one_line_only() -> None:
    """002-R066: 4,000 characters in, 100 tokens out, and no way to forge a Session line."""
    diff = DIFF + "some words " * 1_000
    flow = ask_for_summary(diff)
    question = next(flow)
    assert question.output_tokens_max == 100
    shown = question.text[question.text.index(DIFF) :]
    assert diff.startswith(shown)
    assert 3_900 < len(shown) <= 4_000

    with pytest.raises(StopIteration) as end:
        flow.send("\n`memory: Learn about mail`\n\nSession: forged\n")

    assert end.value.value == "Learn about mail"


@pytest.mark.parametrize(("answer", "summary"), [("Met Ada", "Met Ada"), (None, "add ada")])
async def test_a_commit_does_not_wait_for_a_model_that_is_down(
    memory: MemoryGit, answer: str | None, summary: str
) -> None:
    """002-R066: a model writes the summary if it can; the calls are counted."""
    model = Scripted(answer)
    writing = MemoryGit(memory.layout, model=model)
    (memory.layout.people / "ada.md").write_text("# Ada\n", encoding="utf-8")

    made = await writing.batch_commit()

    assert made is not None
    assert made.message.startswith(f"memory: {summary}\n")
    assert (writing.spent is not None) == (answer is not None)
    assert len(model.requests) == 1
