"""The contract of every ``Store``.

One class is for a single handle, one for two handles on one database, and one for a handle that
is opened again with more kinds. Another deployment of a server that passes all of them needs
only some. The test module of a store subclasses them and provides

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
from tests.contracts.store_invalid_writes import InvalidWritesContract, LimitsContract
from tests.contracts.store_keys import KeysContract
from tests.contracts.store_kinds import KindsContract
from tests.contracts.store_matches import MatchesContract
from tests.contracts.store_two_clients import ReopenedStoreContract, SharedStoreContract
from tests.contracts.store_valid_time import ValidTimeContract
from tests.contracts.store_values import ValuesContract

__all__ = [
    "ReopenedStoreContract",
    "ServedStoreContract",
    "SharedStoreContract",
    "StoreContract",
    "WithNamespace",
]


class WithNamespace:
    @pytest.fixture
    def namespace(self) -> Namespace:
        """Ids and a kind that no other test uses."""
        return Namespace()


class ServedStoreContract(
    WithNamespace,
    CommitsContract,
    KeysContract,
    MatchesContract,
    GetManyContract,
    FeedContract,
    ValuesContract,
    LimitsContract,
    ConcurrencyContract,
):
    """The guarantees of a single handle that depend on how a server is deployed.

    That is, on its log and documents. Its index and its query engine are the same everywhere;
    random histories compare their answers (``random_histories``).
    """


class StoreContract(
    ServedStoreContract,
    ValidTimeContract,
    AsOfContract,
    HistoryContract,
    FindContract,
    FindErrorsContract,
    InvalidWritesContract,
    InvalidArgumentsContract,
    KindsContract,
    ClosingContract,
):
    """The guarantees of a single handle."""
