"""The answer to SQL over what was recorded. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRows:
    """The answer to a statement."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    truncated: bool
    """Whether there are more rows than were asked for."""
