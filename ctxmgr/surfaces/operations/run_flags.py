"""The options of `ctxmgr run`: flags joined with an earlier run and the settings. Reads the disk.

    flags  ▸  the session's earlier run  ▸  settings  ▸  defaults

Any session of the store can be continued, also one that no run created.
"""

import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path

from ctxmgr.errors import Denied, Incorrect
from ctxmgr.harness.run import ECONOMY, Assignment
from ctxmgr.models.open_model import HttpModel, open_model
from ctxmgr.settings import LoadedSettings
from ctxmgr.trust import RunChoices


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
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

    def assignment(
        self,
        loaded: LoadedSettings,
        previous: Assignment | None,
        *,
        confirmed: RunChoices | None = None,
    ) -> Assignment:
        """Join the flags with the session's earlier run; ``Incorrect`` if something is missing.

        What the store says of the earlier run decides where commands run and where a key is sent
        only if this machine ran the session that way (``confirmed``), or if it is harmless;
        otherwise ``Denied`` names the flags to repeat.
        """
        if self.task is None and previous is None:
            if self.session is None:
                raise Incorrect("no task given")
            raise Incorrect(f"session {self.session} has no task from an earlier run: give a task")
        if self.task is not None and not self.task.strip():
            raise Incorrect("the task is empty")
        api = self.api or (previous.api if previous else loaded.settings.api)
        model = self.model or (previous.model if previous else loaded.settings.model)
        if not model:
            raise Incorrect("no model given: use --model")
        if previous is not None:
            self._check_confirmed(previous, confirmed, api=api)
        folder = self.workspace or Path(previous.workspace if previous else ".")
        return Assignment(
            session=self.session or f"run-{uuid.uuid4().hex[:12]}",
            task=self.task or (previous.task if previous else ""),
            turn=previous.turn if previous else 1,
            workspace=str(folder.absolute()),
            sandbox=self.sandbox or (previous.sandbox if previous else None),
            network=self.network or bool(previous and previous.network),
            started_here=self.session is None or bool(previous and previous.started_here),
            model=model,
            api=api,
            base_url=self._base_url(loaded, previous, api),
            policy=self._policy(previous),
        )

    def _policy(self, previous: Assignment | None) -> str | None:
        """Return the policy to use; None: the session's own."""
        if self.policy is not None or self.session is None:
            return self.policy or ECONOMY
        return previous.policy if previous else None

    def _check_confirmed(
        self, previous: Assignment, confirmed: RunChoices | None, *, api: str
    ) -> None:
        needed = []
        if self.workspace is None and previous.workspace not in {
            str(Path.cwd()),
            confirmed and confirmed.workspace,
        }:
            needed.append(f"--workspace {shlex.quote(previous.workspace)}")
        if self.sandbox is None and previous.sandbox == "host" != (confirmed and confirmed.sandbox):
            needed.append("--sandbox host")
        if not self.network and previous.network and not (confirmed and confirmed.network):
            needed.append("--network")
        keeps_address = self.base_url is None and previous.api == api
        known = {None, confirmed and confirmed.base_url}
        if keeps_address and previous.base_url not in known:
            needed.append(f"--base-url {shlex.quote(str(previous.base_url))}")
        if needed:
            raise Denied(
                f"the store says how session {previous.session} is run, and this machine has not "
                f"run it that way: if that is intended, repeat {' '.join(needed)}"
            )

    def _base_url(
        self, loaded: LoadedSettings, previous: Assignment | None, api: str
    ) -> str | None:
        if self.base_url is not None or (previous is not None and previous.api == api):
            return self.base_url or (previous.base_url if previous else None)
        loaded.require_trusted("base_url")
        return loaded.settings.base_url


def choices_of(assignment: Assignment) -> RunChoices:
    """Return what a person confirms by running an assignment."""
    return RunChoices(
        workspace=assignment.workspace,
        sandbox=assignment.sandbox,
        network=assignment.network,
        base_url=assignment.base_url,
    )


def model_of(loaded: LoadedSettings, assignment: Assignment) -> HttpModel:
    """Open the model of an assignment, with the API key of the settings."""
    loaded.require_trusted(f"{assignment.api}_api_key")
    return open_model(
        assignment.model,
        api=assignment.api,
        key=loaded.settings.api_key(assignment.api),
        base_url=assignment.base_url,
    )
