"""What only some people install: never imported by anything else, and named where it is missing."""

import subprocess
import sys
import tomllib

import pytest

from tests.components import ROOT

SHIMS = {
    "anthropic_memory": ("anthropic", "anthropic"),
    "langgraph_checkpoints": ("langgraph", "langgraph"),
    "langgraph_store": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "telemetry": ("opentelemetry", "opentelemetry"),
}
"""Each shim, the module that it needs, and the extra that installs it."""


@pytest.mark.parametrize("shim", SHIMS)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(shim: str) -> None:
    """Whoever forgot to install something is told what to type."""
    needed, extra = SHIMS[shim]
    code = f"import sys; sys.modules[{needed!r}] = None; import ctxmgr.integrations.{shim}"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)

    assert "ExtraMissing" in run.stderr
    assert f"pip install 'ctxmgr[{extra}]'" in run.stderr


def test_every_extra_that_is_named_exists() -> None:
    """A line to copy that installs nothing would help nobody."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert set(project["optional-dependencies"]) >= {extra for _, extra in SHIMS.values()}


def test_importing_ctxmgr_imports_no_framework() -> None:
    """Nobody waits for what they do not use."""
    named = sorted({needed for needed, _ in SHIMS.values()})
    code = (
        f"import sys, ctxmgr, ctxmgr.surfaces.cli; print([n for n in {named} if n in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert run.stdout.strip() == "[]"
