"""Workflows from repeated commands; conventions from the files of a project."""

from ctxmgr.memory.extraction.project_files import conventions_of
from ctxmgr.memory.extraction.workflows import CommandSequence, extract_workflows
from ctxmgr.memory.records.bodies import Fact, Workflow
from tests.memory.extraction.exchanges import ran, worked


def test_commands_in_the_same_order_three_times_are_a_workflow() -> None:
    """001-R127: what differs in the arguments is the same step."""
    earlier: tuple[CommandSequence, ...] = ()
    found = []
    for number in range(4):
        exchange = worked(
            ran(1, f"pytest -q tests/test_{number}.py"),
            ran(2, "grep -n x src"),
            ran(3, "npm run build 2>&1 | tail -3"),
            ran(4, f"git commit -m 'part {number}'"),
        )
        result, earlier = extract_workflows(exchange, earlier)
        found.append(result.learnt)
    assert [len(each) for each in found] == [0, 0, 1, 1]
    body = found[2][0].body
    assert isinstance(body, Workflow)
    assert body.steps == ("pytest", "npm run build", "git commit")
    assert body.hint == "pytest, then npm run build, then git commit"
    assert found[3][0].body == body  # the same memory, not a second one


def test_a_failed_command_is_no_step() -> None:
    earlier: tuple[CommandSequence, ...] = (("make", "git push"),) * 5
    exchange = worked(ran(1, "make build", "error", ok=False), ran(2, "git push"))
    result, _ = extract_workflows(exchange, earlier)
    assert result.learnt == ()


def facts(name: str, text: str) -> list[Fact]:
    items = conventions_of(name, text, object_id="f", object_hash=None)
    return [item.body for item in items if isinstance(item.body, Fact)]


def test_points_of_an_agents_file_are_conventions() -> None:
    text = (
        "# Rules\n\nSome prose about always doing things.\n\n"
        "- Use **pnpm**, never npm, because the lock file is shared.\n"
        "- The cart lives in src/cart.\n"
        "```\n- Use nothing of this\n```\n"
        "1. Run `make test` before a commit.\n"
    )
    first, second = facts("AGENTS.md", text)
    assert (first.value, first.reason) == ("Use pnpm, never npm", "the lock file is shared")
    assert second == Fact(
        key="`make test` before a commit", value="Run `make test` before a commit"
    )


def test_tools_of_a_pyproject_are_facts() -> None:
    text = (
        '[project]\nrequires-python = ">=3.11"\n[tool.ruff]\nline-length = 100\n'
        "[tool.mypy]\nstrict = true\n[tool.pytest.ini_options]\n"
    )
    assert facts("pyproject.toml", text) == [
        Fact(key="Python version", value=">=3.11"),
        Fact(key="line length", value="100", scope="python"),
        Fact(key="test runner", value="pytest", scope="python"),
        Fact(key="linter", value="ruff", scope="python"),
        Fact(key="type checker", value="mypy", scope="python"),
    ]
    assert facts("pyproject.toml", "[tool.ruff\n") == []


def test_well_known_targets_of_a_makefile_are_facts() -> None:
    text = ".PHONY: test\n\ntest: build\n\t@pytest -q\n\nobscure:\n\trm -rf x\n"
    assert facts("Makefile", text) == [
        Fact(key="command to test", value="make test", reason="it runs pytest -q")
    ]
