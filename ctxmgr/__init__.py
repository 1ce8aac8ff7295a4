"""ctxmgr: decides, turn by turn, what an agent's model sees, and forgets nothing.

    errors      every exception, drawn as a tree
    core/       the context manager: objects, sessions, the client, and what it needs
    stores/     bitemporal databases: embedded SQLite, XTDB over HTTP
    sandboxes/  where an agent's commands run
    messages/   the context in each model API's form, and replies read back
    models/     model APIs over HTTP
    settings    what a person may set, and where things lie by default
    app         composition root: settings in, a running store or client out
    harness/    the loop of `ctxmgr run` and the demo, on what any harness may use
    bench/      `ctxmgr bench NAME`
    integrations/
                shims for other frameworks, each behind an extra of its own
    surfaces/   operations, each declared once; the command line and MCP server derived from them

Public are the names here, what ``connect`` gives, ``core.model``, ``core.sandbox``, ``core.tools``,
and the names that docs/harness.md, docs/run.md and docs/integrations.md use. Whatever else a
module holds may change.

A name is imported when it is asked for: `ctxmgr --help` must not wait for what it does not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ctxmgr.app import connect, open_store
    from ctxmgr.core.collapse import Window
    from ctxmgr.core.contents import File, ToolCall
    from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt, Turn
    from ctxmgr.core.objects import KINDS, from_document, to_document
    from ctxmgr.core.planner import Prices
    from ctxmgr.core.policies import Economy
    from ctxmgr.core.sources import FilesystemSource
    from ctxmgr.core.store import (
        AsOf,
        Delete,
        FieldType,
        Kind,
        Match,
        Order,
        Put,
        Query,
        Range,
        Store,
        Version,
    )
    from ctxmgr.errors import (
        Conflict,
        Corrupt,
        CtxmgrError,
        Denied,
        Incorrect,
        NotFound,
        OutcomeUnknown,
        Unavailable,
        WindowExceeded,
    )

__version__ = "0.1.0"

__all__ = [
    "KINDS",
    "AsOf",
    "Chat",
    "Conflict",
    "Corrupt",
    "CtxmgrError",
    "Delete",
    "Denied",
    "Economy",
    "FieldType",
    "File",
    "FilesystemSource",
    "Incorrect",
    "Kind",
    "Match",
    "NotFound",
    "Order",
    "OutcomeUnknown",
    "Prices",
    "Put",
    "Query",
    "Range",
    "SessionRecord",
    "Store",
    "SystemPrompt",
    "ToolCall",
    "Turn",
    "Unavailable",
    "Version",
    "Window",
    "WindowExceeded",
    "connect",
    "from_document",
    "open_store",
    "to_document",
]

_HOME: Final = {
    "connect": "ctxmgr.app",
    "open_store": "ctxmgr.app",
    "Window": "ctxmgr.core.collapse",
    "File": "ctxmgr.core.contents",
    "ToolCall": "ctxmgr.core.contents",
    "Chat": "ctxmgr.core.infrastructure",
    "SessionRecord": "ctxmgr.core.infrastructure",
    "SystemPrompt": "ctxmgr.core.infrastructure",
    "Turn": "ctxmgr.core.infrastructure",
    "KINDS": "ctxmgr.core.objects",
    "from_document": "ctxmgr.core.objects",
    "to_document": "ctxmgr.core.objects",
    "Prices": "ctxmgr.core.planner",
    "Economy": "ctxmgr.core.policies",
    "FilesystemSource": "ctxmgr.core.sources",
    "AsOf": "ctxmgr.core.store",
    "Delete": "ctxmgr.core.store",
    "FieldType": "ctxmgr.core.store",
    "Kind": "ctxmgr.core.store",
    "Match": "ctxmgr.core.store",
    "Order": "ctxmgr.core.store",
    "Put": "ctxmgr.core.store",
    "Query": "ctxmgr.core.store",
    "Range": "ctxmgr.core.store",
    "Store": "ctxmgr.core.store",
    "Version": "ctxmgr.core.store",
    "Conflict": "ctxmgr.errors",
    "Corrupt": "ctxmgr.errors",
    "CtxmgrError": "ctxmgr.errors",
    "Denied": "ctxmgr.errors",
    "Incorrect": "ctxmgr.errors",
    "NotFound": "ctxmgr.errors",
    "OutcomeUnknown": "ctxmgr.errors",
    "Unavailable": "ctxmgr.errors",
    "WindowExceeded": "ctxmgr.errors",
}
"""Where each public name lives: it is imported when it is first asked for."""

if not TYPE_CHECKING:  # a checker would take every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
