"""The kinds of what an agent experiences, for the logs that record it. Pure."""

from enum import StrEnum


class EventType(StrEnum):
    """What a record of the experience log or of the audit log is about."""

    INPUT = "input"
    OUTPUT = "output"
    TOOL_CALL = "tool_call"
    TOOL_RESPONSE = "tool_response"
    STEERING = "steering"
    SYSTEM = "system"
