"""The plain-text form of a context (003-A30), for completion models and for people. Pure."""

from ctxmgr.core.context.assembly import Context


def payload(context: Context) -> str:
    """Return the prompt as text."""
    return context.text()
