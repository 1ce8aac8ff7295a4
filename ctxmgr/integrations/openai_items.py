"""Items of the OpenAI Agents SDK as parts of a turn's answer, and back. Pure.

    function_call          a toolcall part
    function_call_output   its text is the tool call's content; the part names that object
    an assistant message   a text part
    anything else          kept, and shown by nobody but the SDK

Every part holds its item as it came, so that what the SDK gave is what it gets.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from ctxmgr.core.documents import Document
from ctxmgr.messages.conversation import ToolCallIds, read_call, storable

Item: TypeAlias = dict[str, Any]


def plain(item: object) -> Item:
    """Return the item as documents can hold it."""
    copied: Item = storable(json.loads(json.dumps(item)))
    return copied


def is_output(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call_output"


def part_of(item: Item, ids: ToolCallIds) -> Document:
    """Return the part for an item whose text stands in itself."""
    if item.get("type") == "function_call":
        args = _parsed(item.get("arguments"))
        call = read_call(item.get("call_id"), name=item.get("name"), args=args, ids=ids)
        return {**call, "item": item}
    if item.get("role") == "assistant":
        return {"type": "text", "text": text_of(item.get("content")), "item": item}
    return {"type": "item", "item": item}


def output_part(item: Item, *, toolcall_id: str) -> tuple[Document, str]:
    """Return the part for an output, and the text that its tool call holds."""
    output = item.get("output", "")
    rest = {name: value for name, value in item.items() if name != "output"}
    as_text = isinstance(output, str)
    part = {"type": "item", "item": rest, "output": toolcall_id, "as_text": as_text}
    return part, output if as_text else json.dumps(output)


def item_of(part: Mapping[str, Any], texts: Mapping[str, str]) -> Item:
    """Return the item again; ``texts`` holds the outputs by tool call."""
    item: Item = deepcopy(part["item"])
    if "output" in part:
        text = texts[part["output"]]
        item["output"] = text if part["as_text"] else json.loads(text)
    return item


def user_text(items: Iterable[Mapping[str, Any]]) -> str:
    """Return what the user says in these items."""
    said = (text_of(each.get("content")) for each in items if each.get("role") == "user")
    return "\n".join(text for text in said if text)


def text_of(content: object) -> str:
    """Return the words of a message's content: it is a text, or blocks of which some have one."""
    if isinstance(content, list):
        return "".join(str(each.get("text") or "") for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def _parsed(arguments: object) -> object:
    try:
        return json.loads(str(arguments or "{}"))
    except ValueError:
        return arguments
