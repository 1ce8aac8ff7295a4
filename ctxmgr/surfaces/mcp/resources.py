"""Objects as MCP resources: the list, and reading one version. Reads the store.

    ctxmgr://object/ID             the newest version
    ctxmgr://object/ID?version=N   version N, from 1; -1 is the newest

A server bound to a session lists that session's pool, and a project's server its sessions; of the
latter, only sessions can be read, since an object's URI does not name a session. Objects with
content are returned as text, others as the JSON of their fields. Secrets are masked.
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

from ctxmgr.core.objects.envelope import SESSION, session_object_id
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.sets import Level
from ctxmgr.core.store.contract import LATEST, Store
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.mcp.results import as_agent_sees, json_line, masked
from ctxmgr.surfaces.mcp.tools import McpScope
from ctxmgr.surfaces.scopes import confine
from ctxmgr.surfaces.views.objects import list_objects, view_object
from ctxmgr.surfaces.views.sessions import (
    ObjectLine,
    SessionLine,
    SessionPage,
    list_sessions,
    pick_sessions,
)

PAGE_SIZE: Final = 100
"""Resources of one page."""

TEXT: Final = "text/plain"
JSON: Final = "application/json"

_SCHEME: Final = "ctxmgr"
_AUTHORITY: Final = "object"

TEMPLATES: Final = (
    ResourceTemplate(
        name="object",
        uri_template=f"{_SCHEME}://{_AUTHORITY}/{{id}}",
        description="An object as it is now, by its id.",
    ),
    ResourceTemplate(
        name="version",
        uri_template=f"{_SCHEME}://{_AUTHORITY}/{{id}}{{?version}}",
        description="A version of an object, from 1; -1 is the newest.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of a server."""

    store: Store
    scope: McpScope
    masker: Masker

    async def page(self, cursor: str | None) -> ListResourcesResult:
        """Return one page of the list; ``Incorrect`` if the cursor is of another list."""
        session_id = self.scope.session_id
        if session_id is None:
            sessions = await self.sessions(limit=PAGE_SIZE, cursor=cursor)
            resources = [_session_resource(line) for line in sessions.sessions]
            return ListResourcesResult(resources=resources, next_cursor=sessions.cursor)
        page = await list_objects(
            self.store, session_id, kind=None, level=None, limit=PAGE_SIZE, cursor=cursor
        )
        pool = [line for line in page.objects if line.level is not Level.INDEXED]
        ended = len(pool) < len(page.objects)  # objects that are only indexed come last
        return ListResourcesResult(
            resources=[self._object_resource(line) for line in pool],
            next_cursor=None if ended else page.cursor,
        )

    async def sessions(self, *, limit: int, cursor: str | None) -> SessionPage:
        """Return one page of the sessions that the server reaches."""
        if self.scope.project is None:
            return await list_sessions(self.store, limit=limit, cursor=cursor)
        return await pick_sessions(self.store, self.scope.project(), limit=limit, cursor=cursor)

    async def read(self, uri: str) -> ReadResourceResult:
        """Read one object; ``Denied`` if the server's session has not seen it."""
        object_id, version = read_uri(uri)
        session_id = self.scope.session_id
        if self.scope.project is not None:
            session_id = object_id.removeprefix(f"{SESSION}:")
            self.scope.require_in_project(session_id)
        if session_id is not None:
            arguments = {"object_id": object_id}
            reached = await confine(self.store, "get", arguments, session_id=session_id)
            object_id = reached["object_id"]
        view = await view_object(self.store, object_id, as_of=LATEST, version=version, session=None)
        if view.content is None:
            value = await as_agent_sees(self.store, masked(view, self.masker), session_id)
            mime_type, text = JSON, json_line(value)
        else:
            mime_type, text = TEXT, self.masker.shown(view.content)
        contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        return ReadResourceResult(contents=[contents])

    def _object_resource(self, line: ObjectLine) -> Resource:
        pinned = ", pinned" if line.pinned else ""
        return Resource(
            uri=uri_of(line.object_id),
            name=self.masker.shown(line.name),
            description=f"{line.kind}, {line.level}{pinned}, {line.state}, {line.char_count} chars",
            mime_type=TEXT,
        )


def uri_of(object_id: str) -> str:
    """Return the URI of an object's newest version."""
    return f"{_SCHEME}://{_AUTHORITY}/{quote(object_id, safe=':')}"


def read_uri(uri: str) -> tuple[str, int | None]:
    """Return the id and the version that a URI names."""
    try:
        parts = urlsplit(uri)
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        version = int(query.pop("version")) if "version" in query else None
    except ValueError as error:
        raise Incorrect(f"invalid object URI {uri!r:.200}: {error}") from error
    object_id = unquote(parts.path.removeprefix("/"))
    if (parts.scheme, parts.netloc) != (_SCHEME, _AUTHORITY) or not object_id or query:
        raise Incorrect(f"invalid object URI {uri!r:.200}: write {TEMPLATES[1].uri_template}")
    return object_id, version


def _session_resource(line: SessionLine) -> Resource:
    return Resource(
        uri=uri_of(session_object_id(line.session_id)),
        name=line.session_id,
        description=f"session, {line.state}, {line.turns} turns",
        mime_type=JSON,
    )
