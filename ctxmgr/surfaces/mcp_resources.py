"""Objects as MCP resources: listed, and read as they are or were. Reads the store.

    ctxmgr://object/ID             the newest version
    ctxmgr://object/ID?version=N   its Nth, from 1; -1 is the newest

The list has the pool of the session that the server is bound to; without one, the sessions. What
has text is given as text, anything else as the JSON of its fields. Secrets are masked.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mcp_types import (
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from ctxmgr.core.envelopes import session_object_id
from ctxmgr.core.secrets import Masker
from ctxmgr.core.sessions import Level
from ctxmgr.core.store import LATEST, Store
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.mcp_results import json_line, masked
from ctxmgr.surfaces.object_pages import list_objects
from ctxmgr.surfaces.object_views import view_object
from ctxmgr.surfaces.scopes import confined
from ctxmgr.surfaces.session_views import ObjectLine, SessionLine, list_sessions

PAGE: Final = 100
"""Resources of one page."""

TEXT: Final = "text/plain"
JSON: Final = "application/json"

_SCHEME: Final = "ctxmgr"
_PLACE: Final = "object"

TEMPLATES: Final = (
    ResourceTemplate(
        name="object",
        uri_template=f"{_SCHEME}://{_PLACE}/{{id}}",
        description="An object as it is now, by its id.",
    ),
    ResourceTemplate(
        name="version",
        uri_template=f"{_SCHEME}://{_PLACE}/{{id}}{{?version}}",
        description="A version of an object, from 1; -1 is the newest.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a server lets be read."""

    store: Store
    session_id: str | None
    masker: Masker

    async def page(self, cursor: str | None) -> ListResourcesResult:
        """List one page; ``Incorrect`` if the cursor is of another list."""
        if self.session_id is None:
            sessions = await list_sessions(self.store, limit=PAGE, cursor=cursor)
            found = [_session_resource(each) for each in sessions.sessions]
            return ListResourcesResult(resources=found, next_cursor=sessions.cursor)
        page = await list_objects(
            self.store, self.session_id, kind=None, level=None, limit=PAGE, cursor=cursor
        )
        pool = [each for each in page.objects if each.level is not Level.INDEXED]
        ended = len(pool) < len(page.objects)  # what is only indexed comes last
        return ListResourcesResult(
            resources=[_object_resource(each) for each in pool],
            next_cursor=None if ended else page.cursor,
        )

    async def read(self, uri: str) -> ReadResourceResult:
        """Read one object; ``Denied`` if the server's session has not met it."""
        object_id, version = read_uri(uri)
        if self.session_id is not None:
            given = {"object_id": object_id}
            reached = await confined(self.store, "get", given, session_id=self.session_id)
            object_id = reached["object_id"]
        view = await view_object(self.store, object_id, as_of=LATEST, version=version, session=None)
        if view.content is None:
            mime_type, text = JSON, json_line(masked(view, self.masker))
        else:
            mime_type, text = TEXT, self.masker.shown(view.content)
        contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        return ReadResourceResult(contents=[contents])


def uri_of(object_id: str) -> str:
    """Return the URI of an object's newest version."""
    return f"{_SCHEME}://{_PLACE}/{quote(object_id, safe=':')}"


def read_uri(uri: str) -> tuple[str, int | None]:
    """Return the id and the version that a URI names."""
    try:
        parts = urlsplit(uri)
        asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        version = int(asked.pop("version")) if "version" in asked else None
    except ValueError as error:
        raise Incorrect(f"{uri!r:.200} is no URI of an object ({error})") from error
    object_id = unquote(parts.path.removeprefix("/"))
    if (parts.scheme, parts.netloc) != (_SCHEME, _PLACE) or not object_id or asked:
        raise Incorrect(f"{uri!r:.200} is no URI of an object: write {TEMPLATES[1].uri_template}")
    return object_id, version


def _object_resource(line: ObjectLine) -> Resource:
    pinned = ", pinned" if line.pinned else ""
    return Resource(
        uri=uri_of(line.object_id),
        name=line.name,
        description=f"{line.kind}, {line.level}{pinned}, {line.state}, {line.char_count} chars",
        mime_type=TEXT,
    )


def _session_resource(line: SessionLine) -> Resource:
    return Resource(
        uri=uri_of(session_object_id(line.session_id)),
        name=line.session_id,
        description=f"session, {line.state}, {line.turns} turns",
        mime_type=JSON,
    )
