"""The context as plain text, and a plain answer as a turn's parts. Pure.

The form of 003-A30, for models that take text and for people who read it.
"""

from ctxmgr.core.assembly import Context
from ctxmgr.core.documents import Document
from ctxmgr.core.parts import text_part


def payload(context: Context) -> str:
    """Return the prompt as one text."""
    return context.text()


def read_answer(text: str) -> tuple[Document, ...]:
    """Return the parts of an answer that is nothing but text."""
    return (text_part(text),) if text else ()
