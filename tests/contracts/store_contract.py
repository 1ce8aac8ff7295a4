"""The contract of every ``Store``.

One class is for a single handle, one for two handles on one database, and one for a handle that
is opened again with more kinds. The test module of a store subclasses them and provides

    store, another_store    open handles that declare ``namespace.kinds``
    reopen                  opens a handle that declares the given kinds

and nothing else, because all stores give the same answers.
"""

import pytest

from tests.contracts.namespace import Namespace
from tests.contracts.store_as_of import AsOfContract
from tests.contracts.store_commits import CommitsContract
from tests.contracts.store_concurrency import ClosingContract, ConcurrencyContract
from tests.contracts.store_feed import FeedContract
from tests.contracts.store_find import FindContract
from tests.contracts.store_find_errors import FindErrorsContract
from tests.contracts.store_get_many import GetManyContract
from tests.contracts.store_history import HistoryContract
from tests.contracts.store_invalid_arguments import InvalidArgumentsContract
from tests.contracts.store_invalid_writes import InvalidWritesContract
from tests.contracts.store_keys import KeysContract
from tests.contracts.store_kinds import KindsContract
from tests.contracts.store_matches import MatchesContract
from tests.contracts.store_two_clients import ReopenedStoreContract, SharedStoreContract
from tests.contracts.store_valid_time import ValidTimeContract
from tests.contracts.store_values import ValuesContract

__all__ = ["ReopenedStoreContract", "SharedStoreContract", "StoreContract", "WithNamespace"]


class WithNamespace:
    @pytest.fixture
    def namespace(self) -> Namespace:
        """Ids and a kind that no other test uses."""
        return Namespace()


class StoreContract(
    WithNamespace,
    CommitsContract,
    KeysContract,
    MatchesContract,
    ValidTimeContract,
    AsOfContract,
    GetManyContract,
    HistoryContract,
    FindContract,
    FindErrorsContract,
    FeedContract,
    ValuesContract,
    InvalidWritesContract,
    InvalidArgumentsContract,
    KindsContract,
    ConcurrencyContract,
    ClosingContract,
):
    """The guarantees of a single handle."""
