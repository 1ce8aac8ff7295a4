"""The table of message forms, and the parameters that name them."""

import inspect
from typing import Any, get_args

from ctxmgr.messages.forms import FORMS
from ctxmgr.settings import Settings
from ctxmgr.surfaces.operations.run import run
from ctxmgr.surfaces.operations.sessions import context

APIS = {name for name, form in FORMS.items() if form.api is not None}


def test_every_parameter_that_names_a_form_accepts_those_of_the_table() -> None:
    """Literals cannot be computed: without this, one would miss a form that was added."""
    assert _choices(inspect.signature(context).parameters["form"].annotation) == set(FORMS)
    assert _choices(inspect.signature(run).parameters["api"].annotation) == APIS
    assert _choices(Settings.model_fields["api"].annotation) == APIS


def _choices(annotation: Any) -> set[str]:
    """Return the strings of a Literal, which may be optional or annotated."""
    if isinstance(annotation, str):
        return {annotation}
    return {choice for argument in get_args(annotation) for choice in _choices(argument)}
