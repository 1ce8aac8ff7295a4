"""Functions of one shape are a pattern with named slots."""

from ctxmgr.memory.extraction.patterns import patterns_of
from ctxmgr.memory.records.bodies import Pattern

ROUTES = '''
@get("/users")
def users(request):
    """All users."""
    check(request)
    return reply(load_all(request.users))

@get("/carts")
def carts(request):
    check(request)
    return reply(load_all(request.carts))

@get("/items")
def items(request):
    check(request)
    return reply(load_all(request.items))

def helper(value):
    return value + 1
'''


def test_functions_of_one_shape_are_a_pattern() -> None:
    """001-R036, 001-R037, 001-R126: structured, with slots, and a hint of one line."""
    (item,) = patterns_of("api.py", ROUTES, object_id="f", object_hash=None)
    assert isinstance(item.body, Pattern)
    assert item.body.hint == "functions of api.py are built alike: check, reply, load_all"
    assert item.body.template == {
        "head": "{…}",
        "step 1": "check(request)",
        "step 2": "return {…}",
    } | {"head": item.body.template["head"]}
    assert item.body.template["head"].startswith("{…} def {…}")
    assert item.tags == ("api.py",)


def test_what_differs_or_occurs_twice_is_no_pattern() -> None:
    two = ROUTES.replace(
        "    check(request)\n    return reply(load_all(request.items))", "    pass"
    )
    assert patterns_of("api.py", two, object_id="f", object_hash=None) == ()
    assert patterns_of("api.txt", ROUTES, object_id="f", object_hash=None) == ()
    assert patterns_of("api.py", "def broken(:\n", object_id="f", object_hash=None) == ()
