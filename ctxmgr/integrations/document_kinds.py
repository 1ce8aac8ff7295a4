"""The kinds of documents that the integrations store, for ``open_store``. Touches nothing.

They hold a framework's own data and are not among the five object types.
"""

from collections.abc import Mapping
from typing import Final

from ctxmgr import KINDS as OBJECT_KINDS
from ctxmgr import FieldType, Kind

AGENTS_HISTORY: Final = "agents_history"
MEMORY_FILE: Final = "memory_file"
LANGGRAPH_CHECKPOINT: Final = "langgraph_checkpoint"
LANGGRAPH_CHANNEL: Final = "langgraph_channel"
LANGGRAPH_WRITE: Final = "langgraph_write"
LANGGRAPH_ITEM: Final = "langgraph_item"

_TEXT: Final = FieldType.TEXT

_DECLARED: Final = (
    Kind(AGENTS_HISTORY, {"session": _TEXT}),
    Kind(MEMORY_FILE, {"scope": _TEXT, "path": _TEXT}),
    Kind(LANGGRAPH_CHECKPOINT, {"thread": _TEXT, "namespace": _TEXT, "checkpoint": _TEXT}),
    Kind(LANGGRAPH_CHANNEL, {"thread": _TEXT, "namespace": _TEXT}),
    Kind(LANGGRAPH_WRITE, {"thread": _TEXT, "namespace": _TEXT, "checkpoint": _TEXT}),
    Kind(LANGGRAPH_ITEM, {"namespace": _TEXT}),
)

KINDS: Final[Mapping[str, Kind]] = {**OBJECT_KINDS, **{kind.name: kind for kind in _DECLARED}}
"""The kinds of ctxmgr's objects and of all integrations, by name."""
