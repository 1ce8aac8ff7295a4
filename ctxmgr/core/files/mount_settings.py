"""Mount mappings in a harness's configuration: JSON or TOML with these names.

    {"agentPrefix": "/workspace", "canonicalPrefix": "/home/me/project", "filesystemId": "…"}

``filesystemId`` defaults to the host's, because a bind mount is a part of its filesystem.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.errors import Incorrect

_EXAMPLE: Final = '{"agentPrefix": "/workspace", "canonicalPrefix": "/home/me/project"}'


class MountSetting(BaseModel):
    """One mapping. Unknown names are rejected, so that a misspelt one is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    agent_prefix: str = Field(alias="agentPrefix")
    canonical_prefix: str = Field(alias="canonicalPrefix")
    filesystem_id: str | None = Field(alias="filesystemId", default=None)
    """None stands for the host's filesystem."""

    def mapping(self, *, host_id: str | Callable[[], str]) -> MountMapping:
        """Return the mapping as a core value."""
        filesystem_id = self.filesystem_id
        if filesystem_id is None:
            filesystem_id = host_id if isinstance(host_id, str) else host_id()
        return MountMapping(
            agent_prefix=self.agent_prefix,
            canonical_prefix=self.canonical_prefix,
            filesystem_id=filesystem_id,
        )


def read_mappings(
    values: Iterable[Mapping[str, Any] | MountSetting], *, host_id: str | Callable[[], str]
) -> tuple[MountMapping, ...]:
    """Validate mappings; raise ``Incorrect`` for the first that is invalid.

    ``host_id`` is the id of the host's filesystem, or a function that is called only if a mapping
    lacks one: a machine need not have an id if every mapping has.
    """
    return tuple(_setting(value).mapping(host_id=host_id) for value in values)


def _setting(value: Mapping[str, Any] | MountSetting) -> MountSetting:
    try:
        return MountSetting.model_validate(value)
    except ValidationError as error:
        if not isinstance(value, Mapping):
            raise Incorrect(f"mount {value!r:.200}: must be a dict, such as {_EXAMPLE}") from None
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise Incorrect(
            f"mount {value!r:.200}: {where}: {fault['msg']}; write it as {_EXAMPLE}"
        ) from None
