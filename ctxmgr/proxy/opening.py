"""Text that is added where a conversation begins: what earlier sessions have learnt. Pure.

It is decided once, with the first request, and sent again with every later one as it was. With
Anthropic's API it is a last block of the system prompt; with OpenAI's, a message of its own before
the user's first one. Lines that the request contains anyway are left out.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from ctxmgr.proxy.engine import Api
from ctxmgr.proxy.requests import ReadRequest
from ctxmgr.proxy.wire.json_spans import ByteSpan, Edit, encoded
from ctxmgr.proxy.wire.message import REMINDER, Side

Opening: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the text for a conversation that begins with a message of the user; empty: none."""

OPENING_SECONDS_MAX: Final = 1.0
"""Time for the text, once in a conversation; without it, the conversation begins without one."""

OPENING_CHARS_MAX: Final = 16_000
"""Some 4,000 tokens, however large the budgets of memory and knowledge are."""

QUESTION_CHARS_MAX: Final = 16_000
"""Of what the user asks; a first message may hold whole files."""

HEADING: Final = "From ctxmgr, learnt in earlier sessions of this project:"

LEADING_MAX: Final = 8
"""Messages among which the user's first one is looked for."""

LINE_CHARS_MIN: Final = 12
"""A shorter line, such as a heading, may be in a request by chance."""


def begins(read: ReadRequest) -> bool:
    """Whether a request is the first one of a conversation: the model has said nothing yet."""
    return all(entry.message.side is not Side.ASSISTANT for entry in read.entries)


def first_words(read: ReadRequest) -> str:
    """Return what the user asks in the first request, without what the client says about itself."""
    texts = (
        text
        for entry in read.entries
        if json.loads(entry.raw).get("role") == "user"
        for text in entry.message.prose
        if not text.lstrip().startswith(REMINDER)
    )
    return "\n".join(texts)[:QUESTION_CHARS_MAX]


def without_known_lines(text: str, body: bytes) -> str:
    """Return a text without the lines that a request contains; empty if only headings are left."""
    written = body.decode(errors="replace")
    lines: list[str] = []
    says_something = False
    for line in text[:OPENING_CHARS_MAX].splitlines():
        words = line.strip().removeprefix("- ").strip()
        if len(words) >= LINE_CHARS_MIN:
            if any(
                json.dumps(words, ensure_ascii=escaped)[1:-1] in written
                for escaped in (True, False)
            ):
                continue
            says_something = says_something or not line.startswith("#")
        lines.append(line)
    return f"{HEADING}\n\n" + "\n".join(lines).strip() if says_something else ""


def opening_edit(read: ReadRequest, text: str) -> Edit | None:
    """Return the edit of a request to Anthropic that adds the text.

    None for other APIs, and for a system prompt in a form that is not known.
    """
    if read.api is not Api.ANTHROPIC_MESSAGES:
        return None
    block = b'{"type":"text","text":' + encoded(text) + b"}"
    system = read.fields.get("system")
    raw = read.raw("system")
    if system is not None and raw.startswith(b"[") and read.value("system"):
        return Edit(ByteSpan(system.end - 1, system.end - 1), b"," + block)
    if system is not None and raw.startswith(b'"') and read.value("system"):
        return Edit(system, b'[{"type":"text","text":' + raw + b"}," + block + b"]")
    if system is not None:
        return None if read.value("system") else Edit(system, b"[" + block + b"]")
    end = max(span.end for span in read.fields.values())
    return Edit(ByteSpan(end, end), b',"system":[' + block + b"]")


def opening_message(read: ReadRequest, text: str) -> tuple[int, bytes] | None:
    """Return the message that is added for OpenAI's APIs, and the index of the one after it."""
    if read.api is Api.ANTHROPIC_MESSAGES:
        return None
    roles = (json.loads(entry.raw).get("role") for entry in read.entries[:LEADING_MAX])
    index = next((index for index, role in enumerate(roles) if role == "user"), 0)
    if read.api is Api.OPENAI_CHAT:
        return index, b'{"role":"system","content":' + encoded(text) + b"}"
    content = b'[{"type":"input_text","text":' + encoded(text) + b"}]"
    return index, b'{"type":"message","role":"developer","content":' + content + b"}"
