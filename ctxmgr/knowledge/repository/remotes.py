"""Where a push may go, and by which protocol. Runs git.

An address of the repository's configuration is data: only https and ssh are accepted from there,
since a push to a local path runs the hooks of the repository at that path. A path is accepted if
the person names it. Settings of the repository that would change the address afterwards, or that
choose a program, a proxy or whom to trust, are refused: git has no switch for all of them.
"""

import re
from dataclasses import dataclass
from typing import Final

from ctxmgr.errors import Denied, Incorrect, NotFound
from ctxmgr.knowledge.repository.git import Git

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_ADDRESS: Final = re.compile(r"(?:https://|ssh://|[\w.]+@[\w.][\w.-]*:)[^\s]{1,400}")
_PATH: Final = re.compile(r"/[^\n\0]{1,400}")
_OWN_SCOPES: Final = frozenset({"local", "worktree"})
_REFUSED: Final = re.compile(
    r"url\..*\.(?:insteadof|pushinsteadof)"
    r"|remote\..*\.(?:vcs|pushurl|proxy|proxyauthmethod)"
    r"|credential\..*\.helper"
    r"|http\.(?:.*\.)?(?:proxy\w*|ssl\w+|cookiefile|savecookies|extraheader|curloptresolve)",
    re.IGNORECASE | re.DOTALL,
)
"""Names of settings. ``credential.helper``, ``core.sshCommand`` and the program on the other side
are missing here: a push sets them itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushAddress:
    url: str
    protocols: str
    """As in ``GIT_ALLOW_PROTOCOL``."""


async def push_address(git: Git, remote: str) -> PushAddress:
    """Return where to push: ``remote`` is a configured name, or an absolute path.

    ``NotFound`` if there is no such remote; ``Denied`` if the repository's configuration has an
    address or a setting that a push does not accept.
    """
    await _require_plain_settings(git)
    if remote.startswith("/"):
        if not _PATH.fullmatch(remote):
            raise Incorrect(f"{remote!r:.80} is not the path of a repository")
        return PushAddress(url=remote, protocols="file")
    if not _NAME.fullmatch(remote):
        raise Incorrect(f"{remote!r:.80} is not the name of a remote or an absolute path")
    configured = await git.run("config", "--get", f"remote.{remote}.url")
    url = configured.text.strip()
    if not url:
        raise NotFound(f"there is no remote {remote!r:.80}: git remote add {remote} URL")
    if not _ADDRESS.fullmatch(url):
        raise Denied(
            f"{url!r:.80} is not an address that ctxmgr pushes to: https or ssh; to push to a"
            " folder you trust, pass its absolute path instead of the name of the remote"
        )
    return PushAddress(url=url, protocols="https:ssh")


async def _require_plain_settings(git: Git) -> None:
    listed = await git.output("config", "--list", "--show-scope", "--name-only", "-z")
    parts = listed.split("\0")
    for scope, name in zip(parts[::2], parts[1::2], strict=False):
        if scope in _OWN_SCOPES and _REFUSED.fullmatch(name):
            raise Denied(
                f"the repository's own configuration sets {name!r:.120}, which would change where"
                " or how notes are pushed: remove it, or set it with git config --global"
            )
