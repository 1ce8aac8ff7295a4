"""What conversations through the proxy begin with: memories of a project, and notes. Reads both.

Each has a budget of its own, and secrets are masked. What is needed is loaded when the proxy
starts, so that no conversation waits for it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.proxy.opening import Opening

MEMORY_TOKENS_MAX: Final = 600
"""As in the hook's text where a session begins."""

KNOWLEDGE_TOKENS_MAX: Final = 2_048


async def opening_of(
    app: "App", *, memory: Path | None, knowledge: Path | None
) -> "Opening | None":
    """Return what assembles the text for a question; None without a project and notes.

    ``NotFound`` if there are no notes in the folder.
    """
    if memory is None and knowledge is None:
        return None
    living = None if memory is None else await app.memory(memory)
    library = None if knowledge is None else await app.library(knowledge, main=True)

    async def opening(question: str) -> str:
        sections = []
        if living is not None:
            sections.append((await living.assemble_context(MEMORY_TOKENS_MAX)).context)
        if library is not None:
            compiled = await library.compile(question, budget_tokens=KNOWLEDGE_TOKENS_MAX)
            sections.append(compiled.text)
        return app.masker.shown("\n\n".join(text.strip() for text in sections if text.strip()))

    await opening("hello")
    return opening
