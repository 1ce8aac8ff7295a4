"""Opens a model by the name of its API. Connects only when a request is sent."""

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
    """Return a model that is reached over HTTP; the caller closes it.

    ``base_url`` None means the provider that defines the API, which needs a key.
    """
    if api not in _MODELS:
        raise Incorrect(f"unknown model API {api!r:.80} (one of: {', '.join(sorted(_MODELS))})")
    if not name:
        raise Incorrect("the name of the model is empty; pass the name that the provider uses")
    kind, provider_url = _MODELS[api]
    return kind(name, key=key, base_url=base_url or provider_url)
