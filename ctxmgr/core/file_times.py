"""From when a file's version is true. Pure.

A file's version is valid from when the file changed, but an instant before the previous version's
would hide it, and one ahead of the store's clock would hide what is written next. So:

    strictly after the previous version's, never after now, and before the store's last known
    transaction; where that cannot be had, None: the store's own time is taken
"""

from typing import Final

from ctxmgr.core.store import Instant

NS_PER_MS: Final = 1_000_000


def valid_time_of(
    mtime_ns: int,
    *,
    previous: Instant | None,
    now: Instant,
    last_transaction: Instant | None,
) -> Instant | None:
    """Return the valid time to send with a version of a file, or None to send none.

    ``previous`` is the valid time of the version this one follows; the put is guarded by it.
    """
    changed = max(mtime_ns // NS_PER_MS, 0)
    if previous is not None:
        changed = max(changed, previous + 1)
    if last_transaction is None or changed >= last_transaction or changed > now:
        return None
    return changed
