"""What a person may set, and where things lie by default. Reads files and the environment.

    flags  ▸  CTXMGR_* environment  ▸  ./ctxmgr.toml  ▸  ctxmgr.toml in the XDG configuration folder
    the first that names a setting decides it; what nobody names has its default

Importing does nothing: the environment is read by ``load_settings``, and no folder is made here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tomllib import TOMLDecodeError
from types import MappingProxyType
from typing import Any, Final, Literal

from platformdirs import PlatformDirs
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ctxmgr.errors import Denied, Incorrect

SETTINGS_FILE: Final = "ctxmgr.toml"
ENVIRONMENT_PREFIX: Final = "CTXMGR_"
DATABASE_FILE: Final = "ctxmgr.db"
API_KEYS: Final = ("anthropic_api_key", "openai_api_key")
"""Settings that are also read from the variable of their name without our prefix."""


def data_dir() -> Path:
    """Where databases lie: ``$XDG_DATA_HOME/ctxmgr``, or what the platform has for it."""
    return Path(_dirs().user_data_dir).absolute()


def state_dir() -> Path:
    """Where logs and process ids lie: ``$XDG_STATE_HOME/ctxmgr``."""
    return Path(_dirs().user_state_dir).absolute()


def cache_dir() -> Path:
    """Where what can be fetched again lies: ``$XDG_CACHE_HOME/ctxmgr``."""
    return Path(_dirs().user_cache_dir).absolute()


def settings_files() -> tuple[Path, Path]:
    """The two files that may hold settings, the stronger first."""
    return Path.cwd() / SETTINGS_FILE, Path(_dirs().user_config_dir).absolute() / SETTINGS_FILE


def default_store_url() -> str:
    """The file that is used when nobody names a store; its folder need not exist yet."""
    return f"sqlite:///{data_dir() / DATABASE_FILE}"


class Settings(BaseSettings):
    """Unknown names in a file are refused, so that a misspelt one is noticed."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str = Field(default_factory=default_store_url)
    """The URL of the store."""
    token: SecretStr | None = None
    """Sent to an XTDB server as ``Authorization: Bearer …``."""
    ca_file: Path | None = None
    """Certificates that an XTDB server behind TLS is checked against, instead of the system's."""
    model: str | None = None
    """What `ctxmgr run` asks, as its provider calls it."""
    api: Literal["anthropic", "openai"] = "anthropic"
    """What the model's server speaks."""
    base_url: str | None = None
    """Where that server is; None: the API's own provider."""
    anthropic_api_key: SecretStr | None = None
    """Also from ``ANTHROPIC_API_KEY``."""
    openai_api_key: SecretStr | None = None
    """Also from ``OPENAI_API_KEY``."""
    telemetry: bool = False
    """Tell OpenTelemetry what `ctxmgr run` does, if the process has it configured."""

    def api_key(self, api: str) -> str | None:
        """Return the key for the servers of an API, in clear: for a header and nothing else."""
        key = self.anthropic_api_key if api == "anthropic" else self.openai_api_key
        return None if key is None else key.get_secret_value()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (pydantic calls by name)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        keys = InitSettingsSource(settings_cls, init_kwargs=_providers_keys())
        return (init_settings, env_settings, keys, *(each for _, each in _files(settings_cls)))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and for each the place that decided it."""

    settings: Settings
    origins: Mapping[str, str]


def load_settings(**flags: object) -> Loaded:
    """Read the settings; flags win. ``Incorrect`` names a bad setting and its place."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    layers = [("flag", given), ("environment", EnvSettingsSource(Settings)())]
    layers += [("environment", _providers_keys())]
    layers += [(place, source()) for place, source in _files(Settings)]
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise Incorrect(_first_fault(error, layers)) from error
    origins = {field: _origin(field, layers) for field in Settings.model_fields}
    return Loaded(settings, MappingProxyType(origins))


def _providers_keys() -> dict[str, Any]:
    """Read the variables that the providers' own programs read."""
    return {name: os.environ[name.upper()] for name in API_KEYS if os.environ.get(name.upper())}


def _files(settings: type[BaseSettings]) -> list[tuple[str, TomlConfigSettingsSource]]:
    return [(str(path), _file(settings, path)) for path in settings_files()]


def _file(settings: type[BaseSettings], path: Path) -> TomlConfigSettingsSource:
    try:
        return TomlConfigSettingsSource(settings, path)
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise Incorrect(f"{path} is no TOML file: {error}") from error
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error


def _origin(field: str, layers: list[tuple[str, dict[str, Any]]]) -> str:
    return next((place for place, values in layers if field in values), "default")


def _first_fault(error: ValidationError, layers: list[tuple[str, dict[str, Any]]]) -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "?"
    if fault["type"] == "extra_forbidden":
        known = ", ".join(sorted(Settings.model_fields))
        return f"{_origin(name, layers)}: {name!r} is no setting; known: {known}"
    return f"{_origin(name, layers)}: {name}: {fault['msg']}"


def _dirs() -> PlatformDirs:
    return PlatformDirs("ctxmgr", appauthor=False)
