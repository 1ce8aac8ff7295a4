"""Read the JSON body of a request, within limits of size and time. Reads from the connection."""

import asyncio
import json
from typing import Any, Final

from starlette.requests import Request

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.http.answers import JSON, HttpRefusal

BODY_SECONDS_MAX: Final = 30.0
"""Time in which a body must arrive."""


async def json_body(request: Request, *, bytes_max: int) -> Any:
    """Return the value of a JSON body."""
    try:
        return json.loads(await _body(request, bytes_max=bytes_max))
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"the body is not valid JSON: {error}") from error


async def _body(request: Request, *, bytes_max: int) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        # Pages of other sites can send other types without a CORS preflight request.
        raise HttpRefusal(415, f"the content type must be {JSON}, not {kind or 'empty'}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise HttpRefusal(413, f"the body is larger than {bytes_max:,} bytes")
    except TimeoutError as error:
        raise HttpRefusal(408, f"the body did not arrive in {BODY_SECONDS_MAX:g} s") from error
    return bytes(body)
