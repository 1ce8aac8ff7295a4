"""The context as plain text."""

from hypothesis import given

from ctxmgr.core.assembly import Context, ShownTurn
from ctxmgr.core.infrastructure import Turn
from ctxmgr.messages.text import payload, read_answer
from tests.core.conversations import contexts
from tests.core.values import texts


@given(contexts())
def test_the_text_form_is_the_plain_form(context: Context) -> None:
    """003-A30, 003-A31: what a person reads is what a text model gets."""
    assert payload(context) == context.text()


@given(texts)
def test_a_plain_answer_is_one_part(text: str) -> None:
    """003-A18: said, and shown as said."""
    turn = Turn(user="", assistant=read_answer(text))

    shown = ShownTurn.of(turn, calls={}).text

    assert shown.removesuffix("\n") == (f"assistant: {text}".removesuffix("\n") if text else "")
