"""Prompts of tests wait for the notes: a slow machine loads packages longer than a turn would."""

import pytest

from ctxmgr.core.context import contributors


@pytest.fixture(autouse=True)
def _patient_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributors, "CONTRIBUTION_SECONDS", 60.0)
