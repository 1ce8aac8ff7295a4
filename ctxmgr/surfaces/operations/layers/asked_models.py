"""The option ``--model`` of the commands that work on notes, and what its answers cost. No I/O."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.core.model import Ledger
    from ctxmgr.core.prices import PriceList

ASKED_MODEL: Final = Param(
    "Ask this model, by its provider's name, with the API and key of the settings; default: rules.",
    metavar="MODEL",
    local=True,  # it spends the person's money
)
ModelOption = Annotated[str | None, ASKED_MODEL]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """What one model cost for one purpose."""

    purpose: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    """None if the price of the model is not known."""


def costs_of(ledger: "Ledger", prices: "PriceList") -> tuple[AskedModel, ...]:
    """Return what the calls of a ledger cost."""
    return tuple(
        AskedModel(
            purpose=cost.purpose,
            model=cost.model,
            calls=cost.calls,
            input_tokens=cost.usage.prompt_tokens,
            output_tokens=cost.usage.output_tokens,
            usd=prices.usd(cost.model, cost.usage),
        )
        for cost in ledger.costs
    )
