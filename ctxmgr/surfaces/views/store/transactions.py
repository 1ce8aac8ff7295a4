"""A list of transactions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ctxmgr.core.store.contract import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPage:
    transactions: Sequence[Transaction]
    """The oldest first; continue after the sequence of the last one."""
