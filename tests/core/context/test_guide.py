"""What a model is told about its prompts, and how its tools are described, under each policy."""

import pytest

import ctxmgr
from ctxmgr import Incorrect, Tools, guide

POLICIES = {
    "plain": ("ACTIVE_CONTENT", "list of known objects", {"#7", "f5c4b0"}),
    "compact": ("ACTIVE_CONTENT", "A short id such as f5c4b0", {"#7", "list of known objects"}),
    "economy": ("[#7", "A handle such as #7", {"list of known objects", "f5c4b0"}),
}
"""Policy → what its guide explains, what its tools call an object, and what they never mention."""


@pytest.mark.parametrize("policy", POLICIES)
def test_the_guide_explains_the_notation_of_the_policy(policy: str) -> None:
    """A model cannot ask for `#7` if nobody told it what that is."""
    notation, _, _ = POLICIES[policy]

    assert notation in guide(policy)
    assert len({guide(name) for name in POLICIES}) == len(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
async def test_tools_are_described_in_the_words_of_the_policy(policy: str) -> None:
    """Under economy there is no list of known objects to take an id from."""
    _, name, foreign = POLICIES[policy]
    async with ctxmgr.connect("sqlite://:memory:", tracking=False, policy=policy) as client:
        session = await client.start("s1", system_prompt="")
        tools = {tool.name: tool for tool in Tools(session).definitions}

    for tool in ("activate", "deactivate", "pin", "unpin"):
        text = f"{tools[tool].description} {tools[tool].schema}"
        assert name in text
        assert not {word for word in foreign if word in text}
    assert ("list_objects" in tools) == (policy == "compact")
    descriptions = {tools[tool].description for tool in ("activate", "deactivate", "pin", "unpin")}
    assert len(descriptions) == 4


async def test_a_policy_that_is_changed_changes_the_tools() -> None:
    """The next call is offered the tools that fit the next prompt."""
    async with ctxmgr.connect("sqlite://:memory:", tracking=False) as client:
        session = await client.start("s1", system_prompt="")
        tools = Tools(session)
        before = str([tool.schema for tool in tools.definitions])

        await session.change_policy("economy")

        after = str([tool.schema for tool in tools.definitions])
    assert "A handle such as #7" in after
    assert "A handle such as #7" not in before


def test_an_unknown_policy_has_no_guide() -> None:
    """The error names those that there are."""
    with pytest.raises(Incorrect, match=r"unknown policy 'frugal' \(one of: plain, compact, econ"):
        guide("frugal")
