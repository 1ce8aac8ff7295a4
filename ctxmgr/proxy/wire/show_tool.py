"""The tool with which a model asks for the whole of a shortened text. Pure.

No client knows this tool. A call of it fails there, the client reports that in its next request,
and the proxy puts the text in the place of the report.
"""

from collections.abc import Mapping
from typing import Any, Final

SHOW_TOOL: Final = "ctxmgr_show"

DESCRIPTION: Final = (
    "Long tool results and arguments of this conversation are shortened by ctxmgr; files and"
    " commands are not affected. `⋯ lines 40–51` stands for lines that are left out,"
    " `[12 lines as in #5]` for lines that are shown at #5, and"
    " `[#17 +1234 tok: names]` at the end gives the handle, the hidden tokens and names in them."
    " Returns the text of a handle, or some of its lines."
)
"""What a model needs in order to read shortened texts."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "such as #17"},
        "lines": {"type": "string", "description": "such as 40-51; default: all"},
    },
    "required": ["handle"],
}
