"""Build the store's Datalog queries. Pure.

Values are always passed as in-args; a query's text contains only names of declared fields. A row is

    [entity, where its version starts, mark]      for find, also the id and the value of the order

``mark`` is set if anything in the store was ever written with an end. Then a version can start more
than once on its timeline, and ``get-start-valid-time``, which returns where its content first
began, is not enough.

Text is compared with ``compare``, which orders by UTF-16 code unit as the contract requires. XTDB's
range operators use an index in UTF-8 order, which differs above U+D800: they are added, for speed,
only where both orders agree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store.contract import FieldType, Kind, Query
from ctxmgr.stores.edn.values import dumps
from ctxmgr.stores.xtdb.transactions import BOUNDED, PLAN

_ROW: Final = "(pull ?e [*]) ?start (pull ?mark [:xt/id])"
_START: Final = "[(get-start-valid-time ?e) ?start]"

_GET: Final = f"{{:find [{_ROW}] :in [[?e ...] ?mark] :where [[?e :xt/id] {_START}]}}"
_EXISTING: Final = "{:find [?e] :in [[?e ...]] :where [[?e :xt/id]]}"
_PIECES: Final = "{:find [(pull ?e [* {:ctxmgr/parts ...}])] :in [[?e ...]] :where [[?e :xt/id]]}"
_ENTITIES: Final = "{:find [(pull ?e [*])] :in [[?e ...]] :where [[?e :xt/id]]}"

_PLANS: Final = f"{{:find [?e (pull ?e [:{PLAN}])] :where [[?e :{PLAN}]]}}"

_TESTS: Final = {FieldType.TEXT: "string?", FieldType.INTEGER: "integer?"}
_AGREEING: Final = "\ud800"


@dataclass(frozen=True, slots=True)
class FindPosition:
    """The end of the last page of a find."""

    value: str | int | None
    """Value of the field that the query orders by; None if it orders only by id."""
    object_id: str


def get_query(object_ids: Iterable[str]) -> bytes:
    """Query the visible versions of these objects."""
    return _request(_GET, [list(object_ids), BOUNDED])


def existing_query(ids: Iterable[str]) -> bytes:
    """Query which of these entities are visible."""
    return _request(_EXISTING, [list(ids)])


def entities_query(ids: Iterable[str]) -> bytes:
    """Query these entities."""
    return _request(_ENTITIES, [list(ids)])


def plans_query() -> bytes:
    """Query the plans of rewrites that were not finished."""
    return _request(_PLANS, [])


def pieces_query(ids: Iterable[str]) -> bytes:
    """Query these pieces with all pieces inside them."""
    return _request(_PIECES, [list(ids)])


def find_query(query: Query, kind: Kind, *, after: FindPosition | None, limit: int) -> bytes:
    """Query a page of the objects that match.

    The inner query selects and orders; the outer one reads only what the inner one returns.
    """
    conditions = _Conditions(kind)
    conditions.equal(query)
    conditions.between(query)
    ordered = query.order is not None
    if query.order is not None:
        conditions.bind(query.order.field, "?o")
    if after is not None:
        conditions.after(after, descending=query.order is not None and query.order.descending)
    column = " ?o" if ordered else ""
    direction = ":desc" if query.order is not None and query.order.descending else ":asc"
    order_by = f":order-by [{f'[?o {direction}] ' if ordered else ''}[?e :asc]]"
    names = " ".join(conditions.names)
    inner = (
        f"{{:find [?e{column}] :in [{names}] :where [{' '.join(conditions.clauses)}] "
        f"{order_by} :limit {limit}}}"
    )
    text = (
        f"{{:find [{_ROW} ?e{column}] :in [?mark {names}] "
        f":where [[(q {inner} {names}) [[?e{column}]]] {_START}] {order_by}}}"
    )
    return _request(text, [BOUNDED, *conditions.values])


class _Conditions:
    """The clauses that select objects, and their values."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.names: list[str] = []
        self.values: list[Any] = []
        self.clauses = [f"[?e :type {self._take(kind.name)}]", "[(string? ?e)]"]

    def equal(self, query: Query) -> None:
        for name, value in query.where.items():
            self.clauses.append(f"[?e :{name} {'nil' if value is None else self._take(value)}]")

    def between(self, query: Query) -> None:
        if query.between is None:
            return
        self.bind(query.between.field, "?b")
        if query.between.low is not None:
            self._compare("?b", ">=", query.between.low)
        if query.between.high is not None:
            self._compare("?b", "<", query.between.high)

    def bind(self, field: str, variable: str) -> None:
        """Bind a field if it has the declared type; XTDB cannot compare mixed types."""
        test = _TESTS[self._kind.indexed[field]]
        self.clauses += [f"[?e :{field} {variable}]", f"[({test} {variable})]"]

    def after(self, position: FindPosition, *, descending: bool) -> None:
        last_id = self._take(position.object_id)
        beyond_id = f"[(compare ?e {last_id}) ?ce] [(> ?ce 0)]"
        if position.value is None:
            self.clauses.append(beyond_id)
            return
        last = self._take(position.value)
        sign = "<" if descending else ">"
        self.clauses.append(
            f"(or-join [?e ?o {last} {last_id}] "
            f"(and [(compare ?o {last}) ?co] [({sign} ?co 0)]) "
            f"(and [(= ?o {last})] {beyond_id}))"
        )
        if _orders_agree(position.value):
            self.clauses.append(f"[({sign}= ?o {last})]")

    def _compare(self, variable: str, sign: str, bound: str | int) -> None:
        name = self._take(bound)
        difference = f"?d{len(self.names)}"
        self.clauses += [
            f"[(compare {variable} {name}) {difference}]",
            f"[({sign} {difference} 0)]",
        ]
        if _orders_agree(bound):
            self.clauses.append(f"[({sign} {variable} {name})]")

    def _take(self, value: Any) -> str:
        name = f"?v{len(self.names)}"
        self.names.append(name)
        self.values.append(value)
        return name


def _orders_agree(bound: str | int) -> bool:
    return not isinstance(bound, str) or all(character < _AGREEING for character in bound)


def _request(query: str, in_args: list[Any]) -> bytes:
    return f"{{:query {query} :in-args {dumps(in_args)}}}".encode()
