"""The experiment's report and plot, computed from its figures. Reads the page template."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from experiments.collapse.behaviour import Behaviour
from experiments.plot import lines

PAGE: Final = Path(__file__).with_name("page.md")

COLUMNS: Final[Mapping[str, Callable[[Behaviour], str]]] = MappingProxyType(
    {
        "turns": lambda run: str(run.turns),
        "activate": lambda run: str(run.activate),
        "deactivate": lambda run: str(run.deactivate),
        "folded by the window": lambda run: str(run.folded),
        "recall after prune": lambda run: str(run.recall_after_prune),
        "peak active": lambda run: str(run.peak_active),
        "end active": lambda run: str(run.end_active),
        "first deactivate, turn": lambda run: str(run.first_deactivate or "never"),
        "first fold, turn": lambda run: str(run.first_folded or "never"),
        "tasks solved": lambda run: f"{run.solved} of {run.tasks}",
        "tokens sent": lambda run: f"{run.tokens_sent:,}",
        "largest prompt, tokens": lambda run: f"{run.tokens_peak:,}",
        "prompts verified": lambda run: "all" if run.prompts_proven else "**not all**",
    }
)
"""The columns that PG-05 requires, and those that explain them."""


def report(runs: Sequence[Behaviour], *, system_prompt: str, task: str) -> str:
    """Fill in the page template."""
    with_it, without = runs
    saved = 1 - with_it.tokens_sent / without.tokens_sent
    return PAGE.read_text(encoding="utf-8").format(
        projects=with_it.tasks,
        turns=with_it.turns,
        system_prompt=system_prompt,
        task=task,
        table=table(runs),
        saved=f"{saved:.0%}",
        peak=with_it.peak_active,
        peak_without=without.peak_active,
        recalled=with_it.recall_after_prune,
    )


def plot(runs: Sequence[Behaviour]) -> str:
    """Draw the token count of each prompt."""
    return lines(
        {run.condition: run.tokens for run in runs},
        title="Tokens of each prompt",
        x="turn",
        y="tokens",
    )


def table(runs: Sequence[Behaviour]) -> str:
    """Return a markdown table with one column per run."""
    head = ["", *(run.condition for run in runs)]
    rows = [[name, *(column(run) for run in runs)] for name, column in COLUMNS.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
