"""Which provider's HTTP a name stands for. Opens connections only when asked something."""

from typing import Final, TypeAlias

from ctxmgr.errors import Incorrect
from ctxmgr.models import anthropic, openai
from ctxmgr.models.anthropic import AnthropicModel
from ctxmgr.models.openai import OpenAIModel

HttpModel: TypeAlias = AnthropicModel | OpenAIModel

_MODELS: Final[dict[str, tuple[type[AnthropicModel] | type[OpenAIModel], str]]] = {
    AnthropicModel.form: (AnthropicModel, anthropic.BASE_URL),
    OpenAIModel.form: (OpenAIModel, openai.BASE_URL),
}


def open_model(name: str, *, api: str, key: str | None, base_url: str | None = None) -> HttpModel:
    """Make a model that is asked over HTTP; whoever called this closes it.

    ``base_url`` None: the API's own provider, which needs a key.
    """
    if api not in _MODELS:
        raise Incorrect(f"{api!r:.80} is no model API; known: {', '.join(sorted(_MODELS))}")
    if not name:
        raise Incorrect("a model needs a name")
    kind, own_url = _MODELS[api]
    return kind(name, key=key, base_url=base_url or own_url)
