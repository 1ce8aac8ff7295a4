"""Anthropic's memory tool on a store, called like from the package's tool runner."""

from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools import ToolError

from ctxmgr import Store
from ctxmgr.integrations.anthropic_memory import MemoryTool
from tests.models.model_server import ModelServer, says
from tests.models.wire import Call, Text


async def call(tool: MemoryTool, command: str, **arguments: Any) -> str:
    output = await tool.call({"command": command, **arguments})
    assert isinstance(output, str)
    return output


async def test_a_file_is_viewed_with_numbered_lines(store: Store, name: str) -> None:
    """The model refers to lines by the numbers it is shown."""
    tool = MemoryTool(store, scope=name)

    await call(tool, "create", path="/memories/notes.md", file_text="one\ntwo\nthree")

    assert "     1\tone\n     2\ttwo" in await call(tool, "view", path="/memories/notes.md")
    part = await call(tool, "view", path="/memories/notes.md", view_range=[2, -1])
    assert part.endswith("     2\ttwo\n     3\tthree")


async def test_a_folder_lists_two_levels_and_no_hidden_names(store: Store, name: str) -> None:
    """The model views its folder first, and a long list would fill the prompt."""
    tool = MemoryTool(store, scope=name)
    for path in ("a/b/c/deep.md", "a/near.md", ".hidden"):
        await call(tool, "create", path=f"/memories/{path}", file_text="x" * 1536)

    listed = (await call(tool, "view", path="/memories")).splitlines()[1:]

    assert listed == [
        "3K\t/memories",
        "3K\t/memories/a/",
        "1.5K\t/memories/a/b/",
        "1.5K\t/memories/a/near.md",
    ]
    assert (
        "/memories\n"
        in await call(MemoryTool(store, scope=f"{name}-other"), "view", path="/memories/") + "\n"
    )


async def test_text_is_replaced_if_it_occurs_once(store: Store, name: str) -> None:
    """An ambiguous replacement changes nothing."""
    tool, path = MemoryTool(store, scope=name), "/memories/a"
    await call(tool, "create", path=path, file_text="red\nblue\nred")

    with pytest.raises(ToolError, match=r"lines \[1, 3\]"):
        await call(tool, "str_replace", path=path, old_str="red", new_str="green")
    with pytest.raises(ToolError, match="verbatim"):
        await call(tool, "str_replace", path=path, old_str="pink", new_str="green")
    answer = await call(tool, "str_replace", path=path, old_str="blue", new_str="green")

    assert answer.endswith("     1\tred\n     2\tgreen\n     3\tred")


async def test_lines_are_inserted_after_the_given_line(store: Store, name: str) -> None:
    """Zero is before the first line; a line beyond the end is rejected."""
    tool, path = MemoryTool(store, scope=name), "/memories/a"
    await call(tool, "create", path=path, file_text="one\n")

    await call(tool, "insert", path=path, insert_line=1, insert_text="two\n")
    await call(tool, "insert", path=path, insert_line=0, insert_text="zero")
    with pytest.raises(ToolError, match=r"\[0, 3\]"):
        await call(tool, "insert", path=path, insert_line=4, insert_text="x")

    assert "1\tzero\n     2\tone\n     3\ttwo" in await call(tool, "view", path=path)


async def test_a_folder_is_renamed_and_deleted_with_its_files(store: Store, name: str) -> None:
    """All files of a folder change in one transaction."""
    tool = MemoryTool(store, scope=name)
    for path in ("a/one", "a/b/two", "ab"):
        await call(tool, "create", path=f"/memories/{path}", file_text=path)

    await call(tool, "rename", old_path="/memories/a", new_path="/memories/z")
    moved = await call(tool, "view", path="/memories/z/b/two")
    await call(tool, "delete", path="/memories/z")

    assert moved.endswith("a/b/two")
    listed = await call(tool, "view", path="/memories")
    assert listed.splitlines()[1:] == ["2B\t/memories", "2B\t/memories/ab"]


async def test_every_version_of_a_file_is_kept(store: Store, name: str) -> None:
    """D9: even those of a file that the model deleted."""
    tool, path = MemoryTool(store, scope=name), "/memories/a"
    await call(tool, "create", path=path, file_text="first")
    await call(tool, "str_replace", path=path, old_str="first", new_str="second")
    await call(tool, "delete", path=path)

    history = await store.history(f"memory_file:{name}:{path}", corrections=True)

    texts = [entry.document and entry.document["text"] for entry in history.entries]
    assert texts == ["first", "second", None]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/memories/../etc/passwd",
        "/memories/a/../../b",
        "/memories/%2e%2e/b",
        "/memories/..\\b",
        "/memories//a",
        "/memories/./a",
        "/memoriesx",
        "memories/a",
        "/memories/a\0",
        "/",
        "",
    ],
)
async def test_a_path_that_leaves_the_folder_is_rejected(
    store: Store, name: str, path: str
) -> None:
    """The tool's documentation demands it."""
    tool = MemoryTool(store, scope=name)

    with pytest.raises(ToolError):
        await call(tool, "create", path=path, file_text="x")
    with pytest.raises(ToolError):
        await call(tool, "view", path=path)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("create", {"path": "/memories/a", "file_text": "again"}),
        ("create", {"path": "/memories", "file_text": "x"}),
        ("view", {"path": "/memories/none"}),
        ("str_replace", {"path": "/memories/none", "old_str": "a", "new_str": "b"}),
        ("delete", {"path": "/memories"}),
        ("delete", {"path": "/memories/none"}),
        ("rename", {"old_path": "/memories/a", "new_path": "/memories/b"}),
        ("rename", {"old_path": "/memories/a", "new_path": "/memories/a/b"}),
    ],
)
async def test_errors_are_reported_to_the_model(
    store: Store, name: str, command: str, arguments: dict[str, Any]
) -> None:
    """Nothing has changed, and the model can react."""
    tool = MemoryTool(store, scope=name)
    await call(tool, "create", path="/memories/a", file_text="a")
    await call(tool, "create", path="/memories/b", file_text="b")

    with pytest.raises(ToolError):
        await call(tool, command, **arguments)

    assert (await call(tool, "view", path="/memories/a")).endswith("\ta")


async def test_a_concurrent_change_is_not_overwritten(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two agents with one memory must not undo each other's changes."""
    tool, path = MemoryTool(store, scope=name), "/memories/a"
    await call(tool, "create", path=path, file_text="one")
    read = tool._files.read

    async def read_then_lose_the_race(path: str) -> tuple[str, str | None]:
        text, token = await read(path)
        await tool._files.write(path, "theirs", token=token)
        return text, token

    monkeypatch.setattr(tool._files, "read", read_then_lose_the_race)

    with pytest.raises(ToolError, match="view it and try again"):
        await call(tool, "str_replace", path=path, old_str="one", new_str="ours")

    assert (await call(tool, "view", path=path)).endswith("theirs")


async def test_the_packages_own_runner_calls_it(store: Store, name: str) -> None:
    """End to end: the model calls the tool, the runner executes it, the model gets the result."""
    use = Call("memory", {"command": "create", "path": "/memories/tea", "file_text": "likes tea"})
    async with (
        ModelServer() as server,
        AsyncAnthropic(api_key="k", base_url=server.base_url("anthropic")) as client,
    ):
        server.script(says(use), says(Text("Done.")))
        runner = client.beta.messages.tool_runner(
            model="scripted-1",
            max_tokens=99,
            messages=[{"role": "user", "content": "Remember tea."}],
            tools=[MemoryTool(store, scope=name)],
            stream=True,
        )

        await runner.until_done()

    assert "memory_20250818" in server.requests[0].text
    assert "File created successfully at: /memories/tea" in server.requests[1].text
