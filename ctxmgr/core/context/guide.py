"""What the system prompt says about the prompts of a policy. Pure.

    guide       how to read the prompt, for the system prompt
    tool_help   what the tools for the context do, and what they accept as an id

A model that does not know the notation cannot use it: it takes a folded text for a truncated one,
and never asks for the rest. The text of each policy describes exactly what that policy renders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from ctxmgr.errors import Incorrect

_Text = TypeVar("_Text")


class NamedPolicy(Protocol):
    """A policy with settings, such as ``Economy``."""

    @property
    def name(self) -> str: ...


_INTRODUCTION: Final = "Your context is managed for you; nothing that you have seen is lost.\n"

_PLAIN: Final = """\
Every file and every tool output has an id and one line in a list at the beginning.
The full text of an active one is at the end, under ACTIVE_CONTENT with its id.
Older outputs are deactivated automatically: their line and their toolcall_ref stay.
activate(id) shows a full text again, deactivate(id) removes it, pin(id) keeps it.
"""

_COMPACT: Final = """\
Every file that you know has a line with a short id at the beginning, such as id=f5c4b0; if there
are many, list_objects lists the older ones. Every tool call has a toolcall_ref with its id.
The full text of an active one is at the end, under ACTIVE_CONTENT with its id.
A line such as [the text of f5c4b0 /src/a.py] stands for a text that is shown there under that id.
Older outputs are deactivated automatically; their toolcall_ref stays.
activate(id) shows a full text again, deactivate(id) removes it, pin(id) keeps it.
"""

_ECONOMY: Final = """\
Every file and every tool output appears once, where it arrived, and has a handle such as #7.
What you read is whole in the next prompt. Long and old texts are shortened: a line such as
⋯ lines 40–51 stands for hidden lines, which read(path=#7, offset=40, limit=12) shows, and a last
line such as [#7 +1234 tok: names] says how many tokens are hidden and which names they contain.
[12 lines as in #5 read a.py] stands for lines that are shown at #5, and [480 characters as in #5]
for a part of one that is long.
Old calls are listed in a digest: [#7 bash make +1234 tok: names], then lines that were kept.
In a very long session, the first turns are summarised: [turns 1–240 are summarised here …].
A message such as [#7 src/a.py changed] reports what changed since, with the difference.
activate(#7) shows the whole text again, pin(#7) keeps it whole, deactivate(#7) removes it.
If there is a tool recall, recall(query) searches everything you have seen, shown or not.
"""

_GUIDES: Final[Mapping[str, str]] = MappingProxyType(
    {"plain": _PLAIN, "compact": _COMPACT, "economy": _ECONOMY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHelp:
    """The descriptions of the tools that change what a session shows."""

    activate: str
    deactivate: str
    pin: str
    unpin: str
    object_id: str
    """Of their argument."""


_TOOL_HELP: Final[Mapping[str, ToolHelp]] = MappingProxyType(
    {
        "plain": ToolHelp(
            activate="Show a known object in full. A file that was never read is read.",
            deactivate="Show only an object's line again; nothing is lost.",
            pin="Keep an object from being deactivated automatically.",
            unpin="Allow an object to be deactivated automatically again.",
            object_id="The id as the list of known objects shows it, the beginning of that id, or "
            "the path of a file.",
        ),
        "compact": ToolHelp(
            activate="Show a known object in full. A file that was never read is read.",
            deactivate="Show only an object's line again; nothing is lost.",
            pin="Keep an object from being deactivated automatically.",
            unpin="Allow an object to be deactivated automatically again.",
            object_id="A short id such as f5c4b0, or the path of a file.",
        ),
        "economy": ToolHelp(
            activate="Show the whole text of an object. A file that was never read is read.",
            deactivate="Reduce an object to its handle; nothing is lost.",
            pin="Keep the text of an object whole.",
            unpin="Allow the text of an object to be shortened again.",
            object_id="A handle such as #7, or the path of a file.",
        ),
    }
)


def guide(policy: "str | NamedPolicy" = "plain") -> str:
    """Return the text that explains the prompts of a policy to the model, for the system prompt.

    A harness adds it to its own system prompt; ``ctxmgr run`` does. ``Incorrect`` if there is no
    such policy.
    """
    return _INTRODUCTION + _of(_GUIDES, policy)


def tool_help(policy: "str | NamedPolicy") -> ToolHelp:
    """Return the descriptions of the tools for the context under a policy."""
    return _of(_TOOL_HELP, policy)


def _of(texts: Mapping[str, _Text], policy: "str | NamedPolicy") -> _Text:
    name = policy if isinstance(policy, str) else policy.name
    if name not in texts:
        raise Incorrect(f"unknown policy {name!r:.80} (one of: {', '.join(texts)})")
    return texts[name]
