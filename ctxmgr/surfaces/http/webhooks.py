"""Deliveries of webhooks: each fires the topics that wait for it. Reads notes; commits.

    POST /hooks/SOURCE/EVENT     with a token of `ctxmgr token --webhook SOURCE`

Such a token is required on loopback, too, and allows nothing else. The body is data for the prompts
of those topics; it names no topic, and nothing in it is followed.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ctxmgr.app import App
from ctxmgr.errors import Denied
from ctxmgr.surfaces.access_tokens import check_source
from ctxmgr.surfaces.http.answers import Endpoint, result_response
from ctxmgr.surfaces.http.bodies import json_body
from ctxmgr.surfaces.http.guard import HOOKS_PATH, require_grant

HOOK_ROUTE: Final = HOOKS_PATH + "{source}/{event}"

DELIVERY_BYTES_MAX: Final = 256 * 1024
"""What services deliver for one event; little of it is kept."""


class WebhookEndpoint(Endpoint):
    """Accepts the deliveries of every source."""

    methods = ("POST",)

    def __init__(self, app: App) -> None:
        self._app = app

    async def answer(self, request: Request) -> Response:
        source, event = request.path_params["source"], request.path_params["event"]
        if require_grant(request.scope).webhook != source:
            raise Denied(
                f"webhooks of {source!r:.80} need a token of their own: "
                "create one with `ctxmgr token --webhook SOURCE`"
            )
        check_source(event)
        payload = await json_body(request, bytes_max=DELIVERY_BYTES_MAX)
        fired = await self._app.fire_webhook(source, event, payload)
        return result_response({"fired": [firing.topic_name for firing in fired]})
