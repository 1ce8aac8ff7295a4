"""The forms in which a prompt can be rendered, in one table. Pure."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctxmgr.core.context.assembly import Context
from ctxmgr.messages import anthropic, openai, text
from ctxmgr.messages.answers import Answer

if TYPE_CHECKING:
    from ctxmgr.core.model import ToolDescription


class MessageApi(NamedTuple):
    """What a model API needs besides the prompt."""

    read_answer: Callable[..., Answer]
    tool_definitions: "Callable[[Iterable[ToolDescription]], list[dict[str, Any]]]"


class MessageForm(NamedTuple):
    """One form of a prompt."""

    payload: Callable[[Context], Any]
    api: MessageApi | None = None
    """None: plain text, which has no tools."""


FORMS: Final[Mapping[str, MessageForm]] = MappingProxyType(
    {
        "text": MessageForm(text.payload),
        anthropic.API: MessageForm(
            anthropic.payload, MessageApi(anthropic.read_answer, anthropic.tool_definitions)
        ),
        openai.API: MessageForm(
            openai.payload, MessageApi(openai.read_answer, openai.tool_definitions)
        ),
    }
)
