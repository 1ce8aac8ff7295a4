"""Who asks. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user in a project. Whatever is read is read for one of them."""

    user_id: str
    project_id: str
