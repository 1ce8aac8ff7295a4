"""What `ctxmgr run` was told, by flags, by an earlier run and by the settings. Reads the disk.

    flags  ▸  what the session was given before  ▸  settings  ▸  defaults

The session need not have been made by a run: any session of the store can be gone on with.
"""

import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ctxmgr.errors import Incorrect
from ctxmgr.harness.assignments import PLAIN, Assignment
from ctxmgr.models.choice import HttpModel, open_model
from ctxmgr.settings import Loaded, settings_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The flags; None: not given."""

    session: str | None
    task: str | None
    workspace: Path | None
    model: str | None
    api: str | None
    base_url: str | None
    sandbox: str | None
    network: bool
    policy: str | None

    def assignment(self, loaded: Loaded, known: Assignment | None) -> Assignment:
        """Join them with what the session was given before; ``Incorrect`` if something lacks."""
        if self.task is None and known is None:
            raise Incorrect(_no_task(self.session))
        if self.task is not None and not self.task.strip():
            raise Incorrect("the task is empty: say what is to be done")
        api = self.api or (known.api if known else loaded.settings.api)
        model = self.model or (known.model if known else loaded.settings.model)
        if not model:
            raise Incorrect("no model is named: give --model, or set CTXMGR_MODEL")
        folder = self.workspace or Path(known.workspace if known else ".")
        return Assignment(
            session=self.session or f"run-{uuid.uuid4().hex[:12]}",
            task=self.task or (known.task if known else ""),
            turn=known.turn if known else 1,
            workspace=str(folder.absolute()),
            sandbox=self.sandbox or (known.sandbox if known else None),
            network=self.network or bool(known and known.network),
            started_here=self.session is None or bool(known and known.started_here),
            model=model,
            api=api,
            base_url=self._base_url(loaded, known, api),
            policy=self.policy or (known.policy if known else PLAIN),
        )

    def _base_url(self, loaded: Loaded, known: Assignment | None, api: str) -> str | None:
        if self.base_url is not None or (known is not None and known.api == api):
            return self.base_url or (known.base_url if known else None)
        _refuse_a_folders_address(loaded, api)
        return loaded.settings.base_url


def model_of(loaded: Loaded, assignment: Assignment) -> HttpModel:
    """Open the model of an assignment, with the key of the settings."""
    return open_model(
        assignment.model,
        api=assignment.api,
        key=loaded.settings.api_key(assignment.api),
        base_url=assignment.base_url,
    )


def _no_task(session: str | None) -> str:
    if session is None:
        return "there is nothing to do: give a task, or --session for one that was interrupted"
    return f"session {session} has no task of an earlier run: give it one"


def _refuse_a_folders_address(loaded: Loaded, api: str) -> None:
    """A key goes nowhere because of a file that came with somebody's project."""
    here, _ = settings_files()
    sent = loaded.settings.api_key(api) and loaded.origins[f"{api}_api_key"] != str(here)
    host = urlsplit(loaded.settings.base_url or "").hostname
    if loaded.origins["base_url"] == str(here) and sent and host not in {"localhost", "127.0.0.1"}:
        raise Incorrect(
            f"{here} would send your API key to {host}: if that is right, give --base-url"
        )
