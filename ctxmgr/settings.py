"""Settings and default locations. Reads settings files and the environment.

    flags  ▸  CTXMGR_* environment  ▸  ./ctxmgr.toml  ▸  ctxmgr.toml in the XDG configuration folder
    the first source that names a setting decides it; otherwise its default applies

Importing has no effect: ``load_settings`` reads the environment, and no folder is created here.
Each file is read once: the bytes whose hash a person confirmed are the ones that are used.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

from platformdirs import PlatformDirs
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    SecretStr,
    ValidationError,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from ctxmgr.core.store.urls import store_url
from ctxmgr.errors import Denied, Incorrect, NotFound
from ctxmgr.trust import is_trusted, trust

SETTINGS_FILE: Final = "ctxmgr.toml"
ENVIRONMENT_PREFIX: Final = "CTXMGR_"
DATABASE_FILE: Final = "ctxmgr.db"
API_KEYS: Final = ("anthropic_api_key", "openai_api_key")
"""Settings that are also read from the environment variable without the ``CTXMGR_`` prefix."""

PRICES: Final = "prices"

URLS: Final = frozenset({"store", "base_url"})
"""Settings that may contain credentials in a URL."""

SETTINGS_BYTES_MAX: Final = 64 * 1024
"""Bytes of a settings file: a few lines, and room for comments."""

SETTINGS_DOTS_MAX: Final = 100
"""Dots of one line: ``tomllib`` needs 15 s for a key of 30,000 parts, and settings have one."""


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


def _without_nul(value: Any) -> Any:
    if "\0" in str(value):
        raise ValueError("it contains NUL, which no path and no URL may")
    return value


_NoNul: Final = AfterValidator(_without_nul)


class PriceSetting(BaseModel):
    """A model's price in USD per million tokens, as a person sets it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: NonNegativeFloat
    output: NonNegativeFloat
    cache_read: NonNegativeFloat | None = None
    """None: as ``input``; so are the next two."""
    cache_write: NonNegativeFloat | None = None
    cache_write_1h: NonNegativeFloat | None = None


class Settings(BaseSettings):
    """All settings. Unknown names in a file are rejected, so that a typo is noticed."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # the input may be a key
    )

    store: Annotated[str, _NoNul, AfterValidator(store_url)] = Field(
        default_factory=default_store_url
    )
    """The URL of the store; a path becomes the URL of an SQLite file."""
    token: SecretStr | None = None
    """Sent to an XTDB server as ``Authorization: Bearer …``."""
    ca_file: Annotated[Path, _NoNul] | None = None
    """CA certificates to verify an XTDB server's TLS certificate, in place of the system's."""
    store_timeout: float | None = Field(default=None, gt=0, le=3600)
    """Seconds that a call of an XTDB server may take, retries included; None: that of the URL, or
    10."""
    audit: Annotated[Path, _NoNul] | None = None
    """The folder of the audit log; None: ``audit`` in the data folder, once a log is there."""
    experience: Annotated[Path, _NoNul] | None = None
    """The folder in which `ctxmgr run` records experience; None: ``xdb`` in the data folder, if it
    is there."""
    knowledge: Annotated[Path, _NoNul] | None = None
    """The folder with the notes and topics; None: there are none."""
    memory: bool = False
    """Whether `ctxmgr run` shows what earlier sessions taught, and learns from each."""
    reviewer_token: SecretStr | None = None
    """A reviewer's credential, for `ctxmgr audit query` and `ctxmgr audit export`."""
    model: Annotated[str, _NoNul] | None = None
    """The model of `ctxmgr run`, by its provider's name."""
    api: Literal["anthropic", "openai"] = "anthropic"
    """The API of the model's server."""
    base_url: Annotated[str, _NoNul] | None = None
    """The address of that server; None: the provider's own."""
    anthropic_api_key: SecretStr | None = None
    """Also from ``ANTHROPIC_API_KEY``."""
    openai_api_key: SecretStr | None = None
    """Also from ``OPENAI_API_KEY``."""
    telemetry: bool = False
    """Report `ctxmgr run` to OpenTelemetry, if the process has it configured."""
    prices: Mapping[str, PriceSetting] = Field(default_factory=dict)
    """Prices of models, by the beginning of their names; they replace the built-in ones. Not from
    the working directory's file."""

    def api_key(self, api: str) -> str | None:
        """Return the API key in plain text, for a request header only."""
        key = self.anthropic_api_key if api == "anthropic" else self.openai_api_key
        return None if key is None else key.get_secret_value()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 (pydantic calls by name)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what ``load_settings`` has read, and read nothing again."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read, once."""

    path: Path
    content: bytes | None
    """None: there is no such file."""
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; ``Incorrect`` if it is no TOML, ``Denied`` if it cannot be read."""
        content = _content(path)
        if content is None:
            return cls(path, None, {})
        if any(line.count(b".") > SETTINGS_DOTS_MAX for line in content.splitlines()):
            raise Incorrect(f"{path} has a line with more than {SETTINGS_DOTS_MAX} dots")
        try:
            return cls(path, content, tomllib.loads(content.decode()))
        except (ValueError, RecursionError) as error:  # tomllib's own error is a ValueError
            raise Incorrect(f"{path} is not valid TOML: {error}") from error


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and the source that decided each one."""

    settings: Settings
    origins: Mapping[str, str]
    untrusted: Path | None = None
    """The working directory's settings file, unless the user has confirmed its content."""

    def require_trusted(self, *names: str) -> None:
        """Raise ``Denied`` if one of these settings comes from an unconfirmed file.

        Such a file may have come with a project, or an agent may have written it. It must not
        decide which store is opened or where credentials are sent.
        """
        for name in names:
            if self.untrusted is not None and self.origins[name] == str(self.untrusted):
                raise Denied(
                    f"{self.untrusted} sets {name}, but that file has not been confirmed on this "
                    "machine: read it, then run `ctxmgr trust`"
                )


def load_settings(**flags: object) -> LoadedSettings:
    """Read the settings; flags take precedence. ``Incorrect`` names a bad one and its source."""
    here, own = (SettingsFile.read(path) for path in settings_files())
    if PRICES in here.values and here.path != own.path:
        # It may have come with a project, and would decide what a budget in dollars means.
        raise Incorrect(f"{here.path}: prices are set in {own.path} only; remove them here")
    layers: list[tuple[str, Mapping[str, Any]]] = [
        ("flag", {name: value for name, value in flags.items() if value is not None}),
        ("environment", _environment()),
        ("environment", _providers_keys()),
        (str(here.path), here.values),
        (str(own.path), own.values),
    ]
    origins = {field: _origin(field, layers) for field in Settings.model_fields}
    untrusted = None if here.path == own.path or _is_confirmed(here) else here.path
    return LoadedSettings(_validated(layers), MappingProxyType(origins), untrusted)


def trust_folder() -> tuple[Path, Mapping[str, Any]]:
    """Confirm the settings file of the working directory; return it and what it sets."""
    here = SettingsFile.read(settings_files()[0])
    if here.content is None:
        raise NotFound(f"there is no {here.path}")
    _validated([(str(here.path), here.values)])
    trust(state_dir(), here.path, here.content)
    return here.path, here.values


def _is_confirmed(file: SettingsFile) -> bool:
    return file.content is not None and is_trusted(state_dir(), file.path, file.content)


def _validated(layers: list[tuple[str, Mapping[str, Any]]]) -> Settings:
    merged: dict[str, Any] = {}
    for _, values in reversed(layers):
        merged.update(values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise Incorrect(_first_fault(error, layers)) from error


def _content(path: Path) -> bytes | None:
    """Return a file's bytes; None if there is no such file.

    An agent may have put anything there: anything but a regular file is not waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Incorrect(f"{path} is not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(SETTINGS_BYTES_MAX + 1)
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(content) > SETTINGS_BYTES_MAX:
        raise Incorrect(f"{path} is larger than {SETTINGS_BYTES_MAX:,} bytes")
    return content


def _environment() -> dict[str, Any]:
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError as error:  # a value that should be JSON
        raise Incorrect(f"the environment: {error}") from error


def _providers_keys() -> dict[str, Any]:
    """Read the environment variables of the providers' own tools."""
    return {name: os.environ[name.upper()] for name in API_KEYS if os.environ.get(name.upper())}


def _origin(field: str, layers: list[tuple[str, Mapping[str, Any]]]) -> str:
    return next((origin for origin, values in layers if field in values), "default")


def _first_fault(error: ValidationError, layers: list[tuple[str, Mapping[str, Any]]]) -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "?"
    if len(fault["loc"]) > 1:  # inside a table
        place = ".".join(map(str, fault["loc"]))
        return f"{_origin(name, layers)}: {place:.200}: {fault['msg']}"
    if fault["type"] == "extra_forbidden":
        names = ", ".join(sorted(Settings.model_fields))
        return f"{_origin(name, layers)}: unknown setting {name!r:.80} (one of: {names})"
    return f"{_origin(name, layers)}: {name}: {fault['msg']}"


def _dirs() -> PlatformDirs:
    return PlatformDirs("ctxmgr", appauthor=False)
