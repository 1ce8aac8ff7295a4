"""What `ctxmgr doctor` found. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str
    found: str | None
    """None: not found, or not working."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    ready: bool
    """Whether ctxmgr can store, and run an agent's commands in a sandbox."""
    summary: str
    """Why, in a few words."""
    findings: tuple[Finding, ...]
