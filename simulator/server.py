"""The HTTP face of the embedded API server.

Plain HTTP on a loopback port, no authentication. One handler parses the request, lets the fault
rules act, calls `Api`, and writes encoded bytes; there is no framework routing in between, because
the demo and the tests create and bind thousands of pods a second. State is owned by the event loop
that runs `start`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from simulator import discovery, errors, printing
from simulator.api import APPLY_PATCH, PATCH_TYPES, Api
from simulator.errors import ApiError
from simulator.faults import FaultRule, Faults
from simulator.gates import FALLBACK_GATE
from simulator.listing import (
    Lister,
    encode_page,
    encoded,
    initial_list_error,
    predicate_of,
    shown,
)
from simulator.messages import (
    JSON_TYPE,
    bytes_response,
    content_type,
    delete_options,
    json_object,
    json_response,
    read_body,
    status_response,
)
from simulator.objects import JsonObject, encode_json
from simulator.routing import (
    Query,
    Target,
    reads_json,
    resolve,
    split_path,
    wants_table,
    write_options,
)
from simulator.store import Version
from simulator.subresources import SUCCESS, Reviewer, bind, evict, scale_of, set_scale
from simulator.watching import WatchStream, fault_error

BOOKMARK_SECONDS: Final = 60.0
"""Between bookmarks of one watch, as kube-apiserver."""
_WATCH_SECONDS: Final = (1800.0, 3600.0)
"""A watch without timeoutSeconds ends after a random time in this range, as kube-apiserver's do."""
_LOG: Final = logging.getLogger(__name__)
_SUCCESS: Final = encode_json(SUCCESS)
_REVIEWS: Final = frozenset(["TokenReview", "SubjectAccessReview", "SelfSubjectAccessReview"])
_STOP_SECONDS: Final = 2.0
_PROBES: Final = (["healthz"], ["livez"], ["readyz"])

Extra = Callable[[str, list[str], Query, bytes], JsonObject]
"""A handler mounted under a path of its own (the control endpoint): method, path, query, body."""


class _DroppedError(Exception):
    """The connection was closed on purpose; nothing is to be answered."""


class _ResponseSink:
    """A streaming response as a watch sees it."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        self._request = request
        self._response = response

    async def write(self, data: bytes) -> None:
        if data:
            await self._response.write(data)

    def abort(self) -> None:
        _abort(self._request)
        raise _DroppedError


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


class ApiServer:
    """Serves one `Api` over HTTP. `mounts` maps a first path segment to an extra handler."""

    def __init__(
        self,
        api: Api,
        faults: Faults | None = None,
        *,
        reviewer: Reviewer | None = None,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        random_source: random.Random | None = None,
    ) -> None:
        self.api = api
        self.faults = faults or Faults()
        self.lister = Lister(api.store)
        self.mounts: dict[str, Extra] = {}
        self._reviewer = reviewer or Reviewer()
        self._bookmark_seconds = bookmark_seconds
        self._random = random_source or random.Random()
        self._streams: set[WatchStream] = set()
        self._requests: dict[str, int] = {}
        self._runner: web.ServerRunner | None = None
        self._address = ""

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen and return the URL. Port 0 takes a free one."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(
            server, handle_signals=False, shutdown_timeout=_STOP_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, backlog=1024).start()
        bound = self._runner.addresses[0]
        self._address = f"{bound[0]}:{bound[1]}"
        return self.url

    async def stop(self) -> None:
        """Close every stream and connection."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """http://host:port."""
        return f"http://{self._address}"

    def send_bookmarks(self) -> int:
        """Send a bookmark on every open watch that allows them; those of Events do not.

        Returns the number of open watches.
        """
        for stream in self._streams:
            stream.bookmark()
        return len(self._streams)

    def statistics(self) -> JsonObject:
        """Return requests by verb and resource, open watches, and the store's numbers."""
        return {
            "requests": dict(sorted(self._requests.items())),
            "watches": len(self._streams),
            "store": self.api.store.statistics()._asdict(),
        }

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            return status_response(error)
        except _DroppedError:
            _abort(request)
            return web.Response()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        segments, query = split_path(request.raw_path)
        mounted = self.mounts.get(segments[0]) if segments else None
        if mounted is not None:
            return json_response(mounted(request.method, segments[1:], query, await request.read()))
        target = resolve(request.method, segments, query, self.api.resources)
        if target is None:
            return self._describe(request, segments)
        accept = request.headers.get("Accept", "")
        if not reads_json(accept):
            raise ApiError(
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json",
            )
        label = f"{target.verb} {target.label}"
        self._requests[label] = self._requests.get(label, 0) + 1
        if target.verb == "watch":
            return await self._watch(request, target, query, accept)
        body = await read_body(request) if request.method != "GET" else None
        rule = self._rule(target, body)
        if rule is not None:
            await self._suffer(rule)
        response = self._perform(request, target, query, body, accept)
        if rule is not None and rule.action == "drop-answer":
            raise _DroppedError
        return response

    def _rule(self, target: Target, body: Any) -> FaultRule | None:
        name = target.name
        if not name and isinstance(body, dict):
            meta = body.get("metadata")
            name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        return self.faults.take(target.verb, target.label, target.namespace, name)

    async def _suffer(self, rule: FaultRule) -> None:
        match rule.action:
            case "error":
                raise fault_error(rule)
            case "delay":
                await self.api.clock.sleep(rule.seconds)
            case "cut":
                raise _DroppedError
            case "silence":
                removed = asyncio.Event()
                undo = self.faults.on_change.subscribe(removed.set)
                try:
                    while self.faults.holds(rule):
                        await removed.wait()
                        removed.clear()
                finally:
                    undo()
                raise _DroppedError
            case _:
                return

    def _perform(
        self, request: web.BaseRequest, target: Target, query: Query, body: Any, accept: str
    ) -> web.Response:
        try:
            return self._call(request, target, query, body, accept)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Objects are untyped: a string where a list belongs shows only where it is used.
            # Nothing is stored by then, because storing is the last step of every verb.
            _LOG.debug("%s %s refused", target.verb, target.label, exc_info=True)
            kind = target.resource.kind
            raise errors.bad_request(
                f'{kind} in version "{target.resource.version}" cannot be handled as a '
                f"{kind}: a field has the wrong type: {error}"
            ) from error

    def _call(
        self, request: web.BaseRequest, target: Target, query: Query, body: Any, accept: str
    ) -> web.Response:
        match target.verb:
            case "get":
                return self._get(target, query, accept)
            case "list":
                return self._list(target, query, accept)
            case "create":
                return self._create(target, query, body)
            case "update" | "patch":
                return self._change(request, target, query, body)
            case "delete":
                return self._delete(target, query, body)
        return self._delete_collection(target, query, body)

    def _get(self, target: Target, query: Query, accept: str) -> web.Response:
        version = self.api.get(target.resource, target.namespace, target.name)
        if target.subresource == "scale":
            return json_response(scale_of(target.resource, version))
        if wants_table(accept):
            return json_response(
                self._table(target, [version], query, {"resourceVersion": str(version.rv)})
            )
        return bytes_response(encoded(target.resource, version))

    def _list(self, target: Target, query: Query, accept: str) -> web.Response:
        page = self.lister.page(target, query)
        if wants_table(accept):
            return json_response(self._table(target, page.versions, query, page.metadata()))
        return bytes_response(encode_page(target.resource, page))

    def _table(
        self, target: Target, versions: list[Version], query: Query, metadata: JsonObject
    ) -> JsonObject:
        return printing.table(
            target.resource.table,
            [version.obj for version in versions],
            self.api.clock.now(),
            metadata=metadata,
            include=query.get("includeObject", "Metadata"),
            columns=target.resource.columns,
        )

    async def _watch(
        self, request: web.BaseRequest, target: Target, query: Query, accept: str
    ) -> web.StreamResponse:
        initial_list_error(query)
        rule = self.faults.standing("watch", target.label, target.namespace)
        if rule is not None and rule.action == "error" and rule.code != 410:
            self.faults.count_standing(rule)
            raise fault_error(rule)
        predicate = predicate_of(target, query)
        requested = query.get("timeoutSeconds", "")
        timeout = (
            float(requested)
            if requested.isdigit() and int(requested)
            else self._random.uniform(*_WATCH_SECONDS)
        )
        stream = WatchStream(
            self.api.store,
            self.faults,
            self.api.clock,
            target,
            query,
            predicate,
            as_table=wants_table(accept),
            bookmark_seconds=self._bookmark_seconds,
        )
        self._streams.add(stream)
        try:
            response = web.StreamResponse(
                headers={"Content-Type": JSON_TYPE, "Cache-Control": "no-cache"}
            )
            response.enable_chunked_encoding()
            await response.prepare(request)
            await stream.run(_ResponseSink(request, response), timeout)
            await response.write_eof()
        except ConnectionError:
            # The client disconnected during the write: no response can be sent.
            return web.Response()
        finally:
            stream.close()
            self._streams.discard(stream)
        return response

    def _create(self, target: Target, query: Query, body: Any) -> web.Response:
        options = write_options(query)
        resource, namespace = target.resource, target.namespace
        obj = json_object(body)
        if resource.kind in _REVIEWS:
            return json_response(self._reviewer.review(resource.kind, obj), 201)
        if target.subresource == "binding" or resource.kind == "Binding":
            name = target.name or str((obj.get("metadata") or {}).get("name", ""))
            bind(self.api, self._pods(), namespace, name, obj, options)
            return bytes_response(_SUCCESS, 201)
        if target.subresource == "eviction":
            evict(self.api, resource, namespace, target.name, obj, options)
            return bytes_response(_SUCCESS, 201)
        if target.subresource:
            raise errors.method_not_allowed()
        version = self.api.create(resource, namespace, obj, options)
        return bytes_response(encoded(resource, version), 201, options.warnings)

    def _pods(self) -> Any:
        return self.api.resources.of_kind("v1", "Pod")

    def _change(
        self, request: web.BaseRequest, target: Target, query: Query, body: Any
    ) -> web.Response:
        options = write_options(query)
        resource, namespace, name = target.resource, target.namespace, target.name
        if target.subresource == "scale":
            return self._scale(request, target, body, query)
        if target.subresource in ("binding", "eviction"):
            raise errors.method_not_allowed()
        # Finalizers of namespaces and ephemeral containers are fields of the main object here.
        subresource = target.subresource if target.subresource in ("status", "resize") else ""
        code = 200
        if target.verb == "update":
            version = self.api.update(
                resource, namespace, name, json_object(body), options, subresource=subresource
            )
        else:
            patch_type = content_type(request)
            if patch_type not in PATCH_TYPES:
                raise errors.unsupported_media_type(PATCH_TYPES)
            if patch_type == APPLY_PATCH and not self.api.store.get(
                resource.table, namespace, name
            ):
                code = 201
            version = self.api.patch(
                resource, namespace, name, body, patch_type, options, subresource=subresource
            )
        return bytes_response(encoded(resource, version), code, options.warnings)

    def _scale(
        self, request: web.BaseRequest, target: Target, body: Any, query: Query
    ) -> web.Response:
        version = self.api.get(target.resource, target.namespace, target.name)
        scale = json_object(body)
        if target.verb == "patch":
            if content_type(request) not in PATCH_TYPES[1:]:
                raise errors.unsupported_media_type(PATCH_TYPES[1:])
            current = scale_of(target.resource, version)
            scale = {**current, "spec": {**current["spec"], **(scale.get("spec") or {})}}
        return json_response(
            set_scale(self.api, target.resource, version, scale, write_options(query))
        )

    def _delete(self, target: Target, query: Query, body: Any) -> web.Response:
        if target.subresource:
            raise errors.method_not_allowed()
        options, wanted = write_options(query), delete_options(query, body)
        options.dry_run = options.dry_run or "All" in (wanted.get("dryRun") or [])
        resource = target.resource
        version, gone = self.api.delete(resource, target.namespace, target.name, wanted, options)
        if not gone or resource.table in ("pods", "namespaces"):
            return bytes_response(encoded(resource, version))
        details = {
            "name": target.name,
            "kind": resource.plural,
            "uid": version.obj["metadata"].get("uid", ""),
        }
        if resource.group:
            details["group"] = resource.group
        return json_response({**SUCCESS, "details": details, "code": 200})

    def _delete_collection(self, target: Target, query: Query, body: Any) -> web.Response:
        deleted = self.api.delete_collection(
            target.resource,
            target.namespace,
            predicate_of(target, query),
            delete_options(query, body),
            write_options(query),
        )
        return json_response(
            {
                "kind": f"{target.resource.kind}List",
                "apiVersion": target.resource.group_version,
                "metadata": {"resourceVersion": str(self.api.store.rv)},
                "items": [shown(target.resource, version) for version in deleted],
            }
        )

    def _describe(self, request: web.BaseRequest, segments: list[str]) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        if segments in _PROBES:
            return web.Response(text="ok")
        found = discovery.document(
            self.api.resources,
            segments,
            self._address,
            fallback=self.api.around.knows(FALLBACK_GATE),
        )
        if found is None:
            raise errors.no_such_resource()
        return json_response(found)
