"""The plain-text form."""

from hypothesis import given

from ctxmgr.core.context.assembly import Context, ShownTurn
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import Turn
from ctxmgr.messages.text import payload
from tests.core.builders.conversations import contexts
from tests.core.builders.values import texts


@given(contexts())
def test_the_text_form_is_the_plain_form(context: Context) -> None:
    """003-A30, 003-A31: a person reads what a completion model gets."""
    assert payload(context) == context.text()


@given(texts)
def test_a_plain_answer_is_one_part(text: str) -> None:
    """003-A18: the text is shown unchanged."""
    turn = Turn(user="", assistant=(text_part(text),) if text else ())

    shown = ShownTurn.of(turn, calls={}).text

    assert shown.removesuffix("\n") == (f"assistant: {text}".removesuffix("\n") if text else "")
