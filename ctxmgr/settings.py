"""Settings and default locations. Reads settings files and the environment.

    flags  ▸  CTXMGR_* environment  ▸  ./ctxmgr.toml  ▸  ctxmgr.toml in the XDG configuration folder
    the first source that names a setting decides it; otherwise its default applies

Importing has no effect: ``load_settings`` reads the environment, and no folder is created here.
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

from ctxmgr.errors import Denied, Incorrect, NotFound
from ctxmgr.trust import is_trusted, trust

SETTINGS_FILE: Final = "ctxmgr.toml"
ENVIRONMENT_PREFIX: Final = "CTXMGR_"
DATABASE_FILE: Final = "ctxmgr.db"
API_KEYS: Final = ("anthropic_api_key", "openai_api_key")
"""Settings that are also read from the environment variable without the ``CTXMGR_`` prefix."""


def data_dir() -> Path:
    """The folder of databases: ``$XDG_DATA_HOME/ctxmgr``, or the platform's equivalent."""
    return Path(_dirs().user_data_dir).absolute()


def state_dir() -> Path:
    """The folder of logs and process ids: ``$XDG_STATE_HOME/ctxmgr``."""
    return Path(_dirs().user_state_dir).absolute()


def cache_dir() -> Path:
    """The folder of files that can be fetched again: ``$XDG_CACHE_HOME/ctxmgr``."""
    return Path(_dirs().user_cache_dir).absolute()


def settings_files() -> tuple[Path, Path]:
    """The two settings files, in order of precedence."""
    return Path.cwd() / SETTINGS_FILE, Path(_dirs().user_config_dir).absolute() / SETTINGS_FILE


def default_store_url() -> str:
    """The URL of the default store; its folder need not exist yet."""
    return f"sqlite:///{data_dir() / DATABASE_FILE}"


class Settings(BaseSettings):
    """All settings. Unknown names in a file are rejected, so that a typo is noticed."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str = Field(default_factory=default_store_url)
    """The URL of the store."""
    token: SecretStr | None = None
    """Sent to an XTDB server as ``Authorization: Bearer …``."""
    ca_file: Path | None = None
    """CA certificates to verify an XTDB server's TLS certificate, in place of the system's."""
    store_timeout: float | None = Field(default=None, gt=0, le=3600)
    """Seconds that a call of an XTDB server may take, retries included; None: that of the URL, or
    10."""
    model: str | None = None
    """The model of `ctxmgr run`, by its provider's name."""
    api: Literal["anthropic", "openai"] = "anthropic"
    """The API of the model's server."""
    base_url: str | None = None
    """The address of that server; None: the provider's own."""
    anthropic_api_key: SecretStr | None = None
    """Also from ``ANTHROPIC_API_KEY``."""
    openai_api_key: SecretStr | None = None
    """Also from ``OPENAI_API_KEY``."""
    telemetry: bool = False
    """Report `ctxmgr run` to OpenTelemetry, if the process has it configured."""

    def api_key(self, api: str) -> str | None:
        """Return the API key in plain text, for a request header only."""
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
        return (init_settings, env_settings, keys, *(source for _, source in _files(settings_cls)))


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and the source that decided each one."""

    settings: Settings
    origins: Mapping[str, str]
    untrusted: Path | None = None
    """The working directory's settings file, unless a person has confirmed its content."""

    def require_trusted(self, *names: str) -> None:
        """Raise ``Denied`` if one of these settings comes from a file that nobody confirmed.

        Such a file may have come with a project, or an agent may have written it. It must not
        decide which store is opened or where credentials are sent.
        """
        for name in names:
            if self.untrusted is not None and self.origins[name] == str(self.untrusted):
                raise Denied(
                    f"{self.untrusted} sets {name}, and nobody has confirmed that file on this "
                    "machine: read it, then run `ctxmgr trust`"
                )


def load_settings(**flags: object) -> LoadedSettings:
    """Read the settings; flags take precedence. ``Incorrect`` names a bad one and its source."""
    flag_values: dict[str, Any] = {
        name: value for name, value in flags.items() if value is not None
    }
    untrusted = _untrusted_file()
    layers = [("flag", flag_values), ("environment", EnvSettingsSource(Settings)())]
    layers += [("environment", _providers_keys())]
    layers += [(path, source()) for path, source in _files(Settings)]
    try:
        settings = Settings(**flag_values)
    except ValidationError as error:
        raise Incorrect(_first_fault(error, layers)) from error
    origins = {field: _origin(field, layers) for field in Settings.model_fields}
    return LoadedSettings(settings, MappingProxyType(origins), untrusted)


def trust_folder() -> tuple[Path, dict[str, Any]]:
    """Confirm the settings file of the working directory; return it and what it sets."""
    here, _ = settings_files()
    try:
        content = here.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no {here}") from None
    except OSError as error:
        raise Denied(f"{here} cannot be read: {error.strerror}") from error
    values = _file(Settings, here)()
    trust(state_dir(), here, content)
    return here, values


def _untrusted_file() -> Path | None:
    here, own = settings_files()
    if here == own:
        return None
    try:
        content = here.read_bytes()
    except OSError:  # absent, or reported when its settings are read
        return here
    return None if is_trusted(state_dir(), here, content) else here


def _providers_keys() -> dict[str, Any]:
    """Read the environment variables of the providers' own tools."""
    return {name: os.environ[name.upper()] for name in API_KEYS if os.environ.get(name.upper())}


def _files(settings: type[BaseSettings]) -> list[tuple[str, TomlConfigSettingsSource]]:
    return [(str(path), _file(settings, path)) for path in settings_files()]


def _file(settings: type[BaseSettings], path: Path) -> TomlConfigSettingsSource:
    try:
        return TomlConfigSettingsSource(settings, path)
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise Incorrect(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error


def _origin(field: str, layers: list[tuple[str, dict[str, Any]]]) -> str:
    return next((origin for origin, values in layers if field in values), "default")


def _first_fault(error: ValidationError, layers: list[tuple[str, dict[str, Any]]]) -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "?"
    if fault["type"] == "extra_forbidden":
        names = ", ".join(sorted(Settings.model_fields))
        return f"{_origin(name, layers)}: unknown setting {name!r} (one of: {names})"
    return f"{_origin(name, layers)}: {name}: {fault['msg']}"


def _dirs() -> PlatformDirs:
    return PlatformDirs("ctxmgr", appauthor=False)
