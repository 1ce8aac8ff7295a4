"""What a sandbox is asked to mount, checked before anything is made. Looks at the host's disk."""

from collections.abc import Iterable
from pathlib import Path

from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import Bind
from ctxmgr.errors import Incorrect


def checked(binds: Iterable[Bind]) -> tuple[Bind, ...]:
    """Return the binds, the outer before the inner, which it would cover otherwise."""
    found = tuple(sorted(binds, key=lambda bind: bind.mapping.agent_prefix.count("/")))
    Mounts.of_sandbox((bind.mapping for bind in found), own_id="to be known")
    for bind in found:
        if bind.mapping.agent_prefix == "/":
            raise Incorrect("a mount at / would cover the sandbox")
        if not Path(bind.mapping.canonical_prefix).exists():
            raise Incorrect(f"{bind.mapping.canonical_prefix!r:.200} is not there to be mounted")
    return found
