"""ctxmgr: decides, turn by turn, what an agent's model sees, and keeps everything it ever saw.

    errors         every exception, as a tree
    settings, app  what a person may set; settings in, a store or a client out
    core/          the context manager, in twelve rooms
    stores/        bitemporal databases: embedded SQLite, XTDB over HTTP
    sandboxes/     where an agent's commands run
    messages/      the context in each model API's form, and replies read back
    models/        model APIs over HTTP
    recordings/    sessions that other agents recorded
    harness/       the loop of `ctxmgr run`, and the demo
    bench/         `ctxmgr bench NAME`
    integrations/  shims for other frameworks, each behind its own extra
    surfaces/      operations, each declared once; command line, HTTP API and MCP server

docs/architecture.md is the map of all rooms, and follows one turn through them.

Public are the names here, and those that docs/ imports from ``ctxmgr.messages``, ``ctxmgr.models``,
``ctxmgr.sandboxes``, ``ctxmgr.integrations`` and ``ctxmgr.harness``. All other names may change.

Public names are imported on first use, so that ``ctxmgr --help`` does not wait for modules that it
does not need.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take a fifth of a hook's time
if TYPE_CHECKING:
    from typing import Any, Final

    from ctxmgr.app import connect, open_store
    from ctxmgr.core.client.client import Client
    from ctxmgr.core.client.live_session import LiveSession
    from ctxmgr.core.client.reconcile import Reconciliation
    from ctxmgr.core.client.runtime import FileAccess
    from ctxmgr.core.client.tool_calls import FileOutcome, FileResult, IndexedToolCall
    from ctxmgr.core.client.tool_definitions import DEFINITIONS, Definition
    from ctxmgr.core.client.tools import ToolResult, Tools
    from ctxmgr.core.context.assembly import Block, Context, Contribution, Section
    from ctxmgr.core.context.contributors import Contributor
    from ctxmgr.core.context.flushes import Flusher, FlushRequest
    from ctxmgr.core.context.guide import guide
    from ctxmgr.core.context.tokens import Calibration, TokenCounter, Vocabulary, vocabulary
    from ctxmgr.core.economy.policy import Economy, Prices
    from ctxmgr.core.events.events import (
        Compacted,
        Event,
        EventId,
        FileDeleted,
        FileDiscovered,
        FileEvent,
        FileIndexed,
        FileUpdated,
        Listener,
        SessionPaused,
        SessionResumed,
        SessionStarted,
        SetsChanged,
        SystemPromptChanged,
        ToolCallCreated,
        TurnFinished,
    )
    from ctxmgr.core.files.filesystem_ids import (
        container_filesystem_id,
        device_filesystem_id,
        host_filesystem_id,
    )
    from ctxmgr.core.files.mounts import MountMapping, Mounts
    from ctxmgr.core.history.as_of import PastState
    from ctxmgr.core.model import (
        AnswerDone,
        AnswerPart,
        Charge,
        Cost,
        Ledger,
        Model,
        Question,
        Request,
        Stop,
        TextAnswer,
        TextDelta,
        ToolUse,
        Usage,
        ask,
    )
    from ctxmgr.core.objects.answers import text_part, toolcall_part
    from ctxmgr.core.objects.chat import AssistantMeta, Chat, Turn
    from ctxmgr.core.objects.codec import KINDS, from_document, to_document
    from ctxmgr.core.objects.compaction import CompactionRecord, CompactionTrigger
    from ctxmgr.core.objects.file import File, FileState
    from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
    from ctxmgr.core.objects.sources import FilesystemSource
    from ctxmgr.core.objects.toolcall import ToolCall
    from ctxmgr.core.prices import ModelPrice, PriceList
    from ctxmgr.core.sandbox import Bind, CommandResult, Description, Held, Limits, Sandbox
    from ctxmgr.core.secrets.masking import FoundSecret, MaskedText, Masker, Secrets, mask
    from ctxmgr.core.sessions.collapse import Window
    from ctxmgr.core.sessions.sets import Level, Session
    from ctxmgr.core.store.contract import (
        BATCH_MAX,
        INSTANT_MAX,
        KEY_LENGTH_MAX,
        OPERATIONS_MAX,
        PAGE_MAX,
        AsOf,
        Commit,
        Delete,
        FieldType,
        FoundPage,
        HistoryEntry,
        HistoryPage,
        IdForm,
        Kind,
        Match,
        Order,
        Put,
        Query,
        Range,
        Store,
        StoreStatus,
        Transaction,
        Version,
        Write,
    )
    from ctxmgr.core.store.documents import (
        DEPTH_MAX,
        DOCUMENT_BYTES_MAX,
        OBJECT_ID_BYTES_MAX,
        TRANSACTION_BYTES_MAX,
    )
    from ctxmgr.core.store.transactions import INDEXED_TEXT_BYTES_MAX
    from ctxmgr.errors import (
        AnswerLost,
        BundleDamaged,
        Conflict,
        Corrupt,
        CtxmgrError,
        Denied,
        ExtraMissing,
        HashMismatch,
        Incorrect,
        ModelUnavailable,
        NewerFormat,
        NotContent,
        NotFound,
        OutcomeUnknown,
        QuotaExceeded,
        Unavailable,
        WindowExceeded,
    )
    from ctxmgr.messages.answers import ToolCallIds
    from ctxmgr.sandboxes.bubblewrap import Bubblewrap
    from ctxmgr.sandboxes.docker import Docker
    from ctxmgr.sandboxes.host import Host
    from ctxmgr.sandboxes.start import start_sandbox

__version__ = "0.1.0"

__all__ = [
    "BATCH_MAX",
    "DEFINITIONS",
    "DEPTH_MAX",
    "DOCUMENT_BYTES_MAX",
    "INDEXED_TEXT_BYTES_MAX",
    "INSTANT_MAX",
    "KEY_LENGTH_MAX",
    "KINDS",
    "OBJECT_ID_BYTES_MAX",
    "OPERATIONS_MAX",
    "PAGE_MAX",
    "TRANSACTION_BYTES_MAX",
    "AnswerDone",
    "AnswerLost",
    "AnswerPart",
    "AsOf",
    "AssistantMeta",
    "Bind",
    "Block",
    "Bubblewrap",
    "BundleDamaged",
    "Calibration",
    "Charge",
    "Chat",
    "Client",
    "CommandResult",
    "Commit",
    "Compacted",
    "CompactionRecord",
    "CompactionTrigger",
    "Conflict",
    "Context",
    "Contribution",
    "Contributor",
    "Corrupt",
    "Cost",
    "CtxmgrError",
    "Definition",
    "Delete",
    "Denied",
    "Description",
    "Docker",
    "Economy",
    "Event",
    "EventId",
    "ExtraMissing",
    "FieldType",
    "File",
    "FileAccess",
    "FileDeleted",
    "FileDiscovered",
    "FileEvent",
    "FileIndexed",
    "FileOutcome",
    "FileResult",
    "FileState",
    "FileUpdated",
    "FilesystemSource",
    "FlushRequest",
    "Flusher",
    "FoundPage",
    "FoundSecret",
    "HashMismatch",
    "Held",
    "HistoryEntry",
    "HistoryPage",
    "Host",
    "IdForm",
    "Incorrect",
    "IndexedToolCall",
    "Kind",
    "Ledger",
    "Level",
    "Limits",
    "Listener",
    "LiveSession",
    "MaskedText",
    "Masker",
    "Match",
    "Model",
    "ModelPrice",
    "ModelUnavailable",
    "MountMapping",
    "Mounts",
    "NewerFormat",
    "NotContent",
    "NotFound",
    "Order",
    "OutcomeUnknown",
    "PastState",
    "PriceList",
    "Prices",
    "Put",
    "Query",
    "Question",
    "QuotaExceeded",
    "Range",
    "Reconciliation",
    "Request",
    "Sandbox",
    "Secrets",
    "Section",
    "Session",
    "SessionPaused",
    "SessionRecord",
    "SessionResumed",
    "SessionStarted",
    "SetsChanged",
    "Stop",
    "Store",
    "StoreStatus",
    "SystemPrompt",
    "SystemPromptChanged",
    "TextAnswer",
    "TextDelta",
    "TokenCounter",
    "ToolCall",
    "ToolCallCreated",
    "ToolCallIds",
    "ToolResult",
    "ToolUse",
    "Tools",
    "Transaction",
    "Turn",
    "TurnFinished",
    "Unavailable",
    "Usage",
    "Version",
    "Vocabulary",
    "Window",
    "WindowExceeded",
    "Write",
    "ask",
    "connect",
    "container_filesystem_id",
    "device_filesystem_id",
    "from_document",
    "guide",
    "host_filesystem_id",
    "mask",
    "open_store",
    "start_sandbox",
    "text_part",
    "to_document",
    "toolcall_part",
    "vocabulary",
]

_HOME: Final = {
    "connect": "ctxmgr.app",
    "open_store": "ctxmgr.app",
    "Client": "ctxmgr.core.client.client",
    "LiveSession": "ctxmgr.core.client.live_session",
    "Reconciliation": "ctxmgr.core.client.reconcile",
    "FileAccess": "ctxmgr.core.client.runtime",
    "FileOutcome": "ctxmgr.core.client.tool_calls",
    "FileResult": "ctxmgr.core.client.tool_calls",
    "IndexedToolCall": "ctxmgr.core.client.tool_calls",
    "DEFINITIONS": "ctxmgr.core.client.tool_definitions",
    "Definition": "ctxmgr.core.client.tool_definitions",
    "ToolResult": "ctxmgr.core.client.tools",
    "Tools": "ctxmgr.core.client.tools",
    "Block": "ctxmgr.core.context.assembly",
    "Context": "ctxmgr.core.context.assembly",
    "Contribution": "ctxmgr.core.context.assembly",
    "Section": "ctxmgr.core.context.assembly",
    "Contributor": "ctxmgr.core.context.contributors",
    "FlushRequest": "ctxmgr.core.context.flushes",
    "Flusher": "ctxmgr.core.context.flushes",
    "guide": "ctxmgr.core.context.guide",
    "Calibration": "ctxmgr.core.context.tokens",
    "TokenCounter": "ctxmgr.core.context.tokens",
    "Vocabulary": "ctxmgr.core.context.tokens",
    "vocabulary": "ctxmgr.core.context.tokens",
    "Economy": "ctxmgr.core.economy.policy",
    "Prices": "ctxmgr.core.economy.policy",
    "Event": "ctxmgr.core.events.events",
    "EventId": "ctxmgr.core.events.events",
    "FileDeleted": "ctxmgr.core.events.events",
    "FileDiscovered": "ctxmgr.core.events.events",
    "FileEvent": "ctxmgr.core.events.events",
    "FileIndexed": "ctxmgr.core.events.events",
    "FileUpdated": "ctxmgr.core.events.events",
    "Listener": "ctxmgr.core.events.events",
    "SessionPaused": "ctxmgr.core.events.events",
    "SessionResumed": "ctxmgr.core.events.events",
    "SessionStarted": "ctxmgr.core.events.events",
    "SetsChanged": "ctxmgr.core.events.events",
    "SystemPromptChanged": "ctxmgr.core.events.events",
    "ToolCallCreated": "ctxmgr.core.events.events",
    "TurnFinished": "ctxmgr.core.events.events",
    "Compacted": "ctxmgr.core.events.events",
    "CompactionRecord": "ctxmgr.core.objects.compaction",
    "CompactionTrigger": "ctxmgr.core.objects.compaction",
    "container_filesystem_id": "ctxmgr.core.files.filesystem_ids",
    "device_filesystem_id": "ctxmgr.core.files.filesystem_ids",
    "host_filesystem_id": "ctxmgr.core.files.filesystem_ids",
    "MountMapping": "ctxmgr.core.files.mounts",
    "Mounts": "ctxmgr.core.files.mounts",
    "PastState": "ctxmgr.core.history.as_of",
    "AnswerDone": "ctxmgr.core.model",
    "AnswerPart": "ctxmgr.core.model",
    "Charge": "ctxmgr.core.model",
    "Cost": "ctxmgr.core.model",
    "Ledger": "ctxmgr.core.model",
    "Model": "ctxmgr.core.model",
    "Question": "ctxmgr.core.model",
    "Request": "ctxmgr.core.model",
    "Stop": "ctxmgr.core.model",
    "TextAnswer": "ctxmgr.core.model",
    "TextDelta": "ctxmgr.core.model",
    "ToolUse": "ctxmgr.core.model",
    "Usage": "ctxmgr.core.model",
    "ask": "ctxmgr.core.model",
    "ModelPrice": "ctxmgr.core.prices",
    "PriceList": "ctxmgr.core.prices",
    "text_part": "ctxmgr.core.objects.answers",
    "toolcall_part": "ctxmgr.core.objects.answers",
    "AssistantMeta": "ctxmgr.core.objects.chat",
    "Chat": "ctxmgr.core.objects.chat",
    "Turn": "ctxmgr.core.objects.chat",
    "KINDS": "ctxmgr.core.objects.codec",
    "from_document": "ctxmgr.core.objects.codec",
    "to_document": "ctxmgr.core.objects.codec",
    "File": "ctxmgr.core.objects.file",
    "FileState": "ctxmgr.core.objects.file",
    "SessionRecord": "ctxmgr.core.objects.session_record",
    "SystemPrompt": "ctxmgr.core.objects.session_record",
    "FilesystemSource": "ctxmgr.core.objects.sources",
    "ToolCall": "ctxmgr.core.objects.toolcall",
    "Bind": "ctxmgr.core.sandbox",
    "CommandResult": "ctxmgr.core.sandbox",
    "Description": "ctxmgr.core.sandbox",
    "Held": "ctxmgr.core.sandbox",
    "Limits": "ctxmgr.core.sandbox",
    "Sandbox": "ctxmgr.core.sandbox",
    "FoundSecret": "ctxmgr.core.secrets.masking",
    "MaskedText": "ctxmgr.core.secrets.masking",
    "Masker": "ctxmgr.core.secrets.masking",
    "Secrets": "ctxmgr.core.secrets.masking",
    "mask": "ctxmgr.core.secrets.masking",
    "Window": "ctxmgr.core.sessions.collapse",
    "Level": "ctxmgr.core.sessions.sets",
    "Session": "ctxmgr.core.sessions.sets",
    "AsOf": "ctxmgr.core.store.contract",
    "BATCH_MAX": "ctxmgr.core.store.contract",
    "Commit": "ctxmgr.core.store.contract",
    "Delete": "ctxmgr.core.store.contract",
    "FieldType": "ctxmgr.core.store.contract",
    "FoundPage": "ctxmgr.core.store.contract",
    "HistoryEntry": "ctxmgr.core.store.contract",
    "HistoryPage": "ctxmgr.core.store.contract",
    "INSTANT_MAX": "ctxmgr.core.store.contract",
    "IdForm": "ctxmgr.core.store.contract",
    "KEY_LENGTH_MAX": "ctxmgr.core.store.contract",
    "Kind": "ctxmgr.core.store.contract",
    "Match": "ctxmgr.core.store.contract",
    "OPERATIONS_MAX": "ctxmgr.core.store.contract",
    "Order": "ctxmgr.core.store.contract",
    "PAGE_MAX": "ctxmgr.core.store.contract",
    "Put": "ctxmgr.core.store.contract",
    "QuotaExceeded": "ctxmgr.errors",
    "Query": "ctxmgr.core.store.contract",
    "Range": "ctxmgr.core.store.contract",
    "Store": "ctxmgr.core.store.contract",
    "StoreStatus": "ctxmgr.core.store.contract",
    "Transaction": "ctxmgr.core.store.contract",
    "Version": "ctxmgr.core.store.contract",
    "Write": "ctxmgr.core.store.contract",
    "DEPTH_MAX": "ctxmgr.core.store.documents",
    "DOCUMENT_BYTES_MAX": "ctxmgr.core.store.documents",
    "OBJECT_ID_BYTES_MAX": "ctxmgr.core.store.documents",
    "TRANSACTION_BYTES_MAX": "ctxmgr.core.store.documents",
    "INDEXED_TEXT_BYTES_MAX": "ctxmgr.core.store.transactions",
    "AnswerLost": "ctxmgr.errors",
    "BundleDamaged": "ctxmgr.errors",
    "Conflict": "ctxmgr.errors",
    "Corrupt": "ctxmgr.errors",
    "CtxmgrError": "ctxmgr.errors",
    "Denied": "ctxmgr.errors",
    "ExtraMissing": "ctxmgr.errors",
    "HashMismatch": "ctxmgr.errors",
    "Incorrect": "ctxmgr.errors",
    "ModelUnavailable": "ctxmgr.errors",
    "NewerFormat": "ctxmgr.errors",
    "NotContent": "ctxmgr.errors",
    "NotFound": "ctxmgr.errors",
    "OutcomeUnknown": "ctxmgr.errors",
    "Unavailable": "ctxmgr.errors",
    "WindowExceeded": "ctxmgr.errors",
    "ToolCallIds": "ctxmgr.messages.answers",
    "Bubblewrap": "ctxmgr.sandboxes.bubblewrap",
    "Docker": "ctxmgr.sandboxes.docker",
    "Host": "ctxmgr.sandboxes.host",
    "start_sandbox": "ctxmgr.sandboxes.start",
}
"""The module that defines each public name."""

if not TYPE_CHECKING:  # a type checker would accept any misspelt name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
