"""Tool calls: the arguments and the output of one call, which has a single version. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from ctxmgr.core.objects.envelope import (
    TOOLCALL,
    Sealed,
    check_ids,
    check_short_text,
    check_text,
    copy_nested,
    seal_unsourced,
)
from ctxmgr.core.store.documents import Document, check_value
from ctxmgr.errors import Incorrect

STATUSES: Final = ("ok", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Sealed):
    """One tool call with its output."""

    kind: ClassVar[str] = TOOLCALL
    source: ClassVar[None] = None

    toolcall_id: str
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    status: Literal["ok", "fail"]
    chat_ref: str
    content: str | None = field(repr=False)
    """The tool's output."""
    args_display: str | None = None
    file_refs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_short_text("tool", self.tool)
        check_short_text("chat_ref", self.chat_ref)
        if not isinstance(self.args, dict):
            raise Incorrect(f"args must be a map, not {self.args!r:.80}")
        check_value(self.args, where="args")
        if self.status not in STATUSES:
            raise Incorrect(f"status must be {' or '.join(STATUSES)}, not {self.status!r:.80}")
        for name in ("content", "args_display"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        if self.file_refs is not None:
            check_ids("file_refs", self.file_refs)
        object.__setattr__(self, "args", copy_nested(self.args))
        seal_unsourced(self, self.toolcall_id, content=self.content)

    def metadata(self) -> Document:
        metadata: Document = {
            "tool": self.tool,
            "args": self.args,
            "status": self.status,
            "chat_ref": self.chat_ref,
        }
        if self.args_display is not None:
            metadata["args_display"] = self.args_display
        if self.file_refs is not None:
            metadata["file_refs"] = list(self.file_refs)
        return metadata
