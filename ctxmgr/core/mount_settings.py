"""Mount mappings as a harness writes them: JSON or TOML with the specified names.

    {"agentPrefix": "/workspace", "canonicalPrefix": "/home/me/project", "filesystemId": "…"}

``filesystemId`` may be left out: a bind mount is a part of the host's filesystem.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.core.mounts import MountMapping
from ctxmgr.errors import Incorrect


class MountSetting(BaseModel):
    """One mapping. Unknown names are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    agent_prefix: str = Field(alias="agentPrefix")
    canonical_prefix: str = Field(alias="canonicalPrefix")
    filesystem_id: str | None = Field(alias="filesystemId", default=None)
    """None: the host's."""

    def mapping(self, *, host_id: str) -> MountMapping:
        """Return the value that the core works with."""
        return MountMapping(
            agent_prefix=self.agent_prefix,
            canonical_prefix=self.canonical_prefix,
            filesystem_id=host_id if self.filesystem_id is None else self.filesystem_id,
        )


def read_mappings(
    values: Iterable[Mapping[str, Any] | MountSetting], *, host_id: str
) -> tuple[MountMapping, ...]:
    """Check mappings given from outside; ``Incorrect`` names the first bad one."""
    return tuple(_setting(value).mapping(host_id=host_id) for value in values)


def _setting(value: Mapping[str, Any] | MountSetting) -> MountSetting:
    try:
        return MountSetting.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise Incorrect(f"mount {value!r:.200}: {where}: {fault['msg']}") from error
