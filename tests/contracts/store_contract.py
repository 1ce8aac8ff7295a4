"""Every Store keeps these promises.

One class for all that a handle promises by itself, one for what two handles on one database
promise each other, one for a handle that declares more. A store's test module subclasses them
and provides

    store, another_store    open handles that know ``corner.kinds``
    reopen                  opens a handle that knows the kinds it is given

and nothing else: what a store answers does not depend on which store it is.
"""

import pytest

from tests.contracts.contract_batches import BatchesContract
from tests.contracts.contract_commits import CommitsContract
from tests.contracts.contract_feed import FeedContract
from tests.contracts.contract_find import FindContract
from tests.contracts.contract_find_refusals import FindRefusalsContract
from tests.contracts.contract_history import HistoryContract
from tests.contracts.contract_keys import KeysContract
from tests.contracts.contract_matches import MatchesContract
from tests.contracts.contract_points import PointsContract
from tests.contracts.contract_questions import QuestionsContract
from tests.contracts.contract_refusals import RefusalsContract
from tests.contracts.contract_sharing import ReopenedStoreContract, SharedStoreContract
from tests.contracts.contract_tasks import ClosingContract, TasksContract
from tests.contracts.contract_valid_time import ValidTimeContract
from tests.contracts.contract_values import ValuesContract
from tests.contracts.corner import Corner

__all__ = ["ReopenedStoreContract", "SharedStoreContract", "StoreContract", "WithCorner"]


class WithCorner:
    @pytest.fixture
    def corner(self) -> Corner:
        """Ids and a kind that no other test uses."""
        return Corner()


class StoreContract(
    WithCorner,
    CommitsContract,
    KeysContract,
    MatchesContract,
    ValidTimeContract,
    PointsContract,
    BatchesContract,
    HistoryContract,
    FindContract,
    FindRefusalsContract,
    FeedContract,
    ValuesContract,
    RefusalsContract,
    QuestionsContract,
    TasksContract,
    ClosingContract,
):
    """What one handle promises."""
