"""The repository of the raw conversations, outside of the workspace. Writes files, runs git.

A conversation is committed as soon as its session ends, and never again, together with the list of
hashes that has its own.
"""

import asyncio
from typing import Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.held_folder import HeldFolder
from ctxmgr.knowledge.notes.layout import CONVERSATIONS, HASHES, Layout
from ctxmgr.knowledge.notes.notes_folder import CONVERSATION_BYTES_MAX
from ctxmgr.knowledge.repository.commit_messages import CommitKind, commit_message
from ctxmgr.knowledge.repository.commits import CommitFolder, GitCommit
from ctxmgr.knowledge.repository.git import Git

_IGNORED: Final = b"*.tmp\n"


async def init_conversations(layout: Layout) -> None:
    """Create the repository, if there is none."""
    raw = layout.raw
    make_private_folder(raw / CONVERSATIONS)
    if (raw / ".git").exists():
        return
    git = Git(raw)
    await git.output("init", "-q", "--template=", "-b", "main", ".")
    (raw / ".gitignore").write_bytes(_IGNORED)
    await _commit(git, {".gitignore": _IGNORED}, commit_message(CommitKind.MAINTENANCE, "set up"))


async def commit_conversation(layout: Layout, path: str, *, slug: str) -> GitCommit | None:
    """Commit a conversation at once; None if it is committed already."""
    if not path.startswith(f"{CONVERSATIONS}/"):
        raise Incorrect(f"{path!r:.80} is not the path of a conversation")
    await init_conversations(layout)
    data = await asyncio.to_thread(
        HeldFolder(layout.raw).read_bytes, path, bytes_max=CONVERSATION_BYTES_MAX
    )
    contents = {path: data}
    if await asyncio.to_thread((layout.raw / HASHES).is_file):
        contents[HASHES] = await asyncio.to_thread(
            HeldFolder(layout.raw).read_bytes, HASHES, bytes_max=CONVERSATION_BYTES_MAX
        )
    message = commit_message(CommitKind.CONVERSATION, slug, session=path)
    return await _commit(Git(layout.raw), contents, message)


async def _commit(git: Git, contents: dict[str, bytes], message: str) -> GitCommit | None:
    commits = CommitFolder(git)

    async def text(_before: str, _after: str) -> str:
        return message

    async with commits.exclusive():
        return await commits.commit({**contents}, message=text)
