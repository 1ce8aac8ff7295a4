"""The tool with which a model asks for the whole of a shortened text. Pure.

No client knows this tool. A call of it fails there, the client reports that in its next request,
and the proxy puts the text in the place of the report.
"""

from collections.abc import Mapping
from typing import Any, Final

SHOW_TOOL: Final = "ctxmgr_show"

DESCRIPTION: Final = (
    "Returns text that ctxmgr left out. `⋯ lines 40–51`: left out."
    " `[12 lines as in #5]`: shown at #5."
    " `[#17 +1234 tok: names]`: handle, hidden tokens and names."
)
"""What a model needs in order to read shortened texts."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "#17"},
        "lines": {"type": "string", "description": "40-51; default: all"},
    },
    "required": ["handle"],
}


def is_own_show(tool: str) -> bool:
    """Whether a client's tool is that of the MCP server, as in ``mcp__ctxmgr__show``.

    In OpenCode, it has the name of the injected one.
    """
    return "ctxmgr" in tool and tool.endswith("show")
