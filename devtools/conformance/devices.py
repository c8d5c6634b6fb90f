"""Allocations and writes of DynamicResources for a vector, in the form of `expected.dra`.

The plugin runs against an API that records its calls and shows each change at once, as a watch
would. Patches are recorded as the updates that kube-scheduler sends: with what the object is then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, cast

import msgspec

from devtools.conformance.world import World
from plugins import DynamicResources
from plugins.dynamic_resources.attempt import DeviceAttempt
from scheduler.api import Pod
from scheduler.api.stored.merging import CLAIM_RULES, Merger, merge_patch
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import CycleState, Handle, ObjectKey
from scheduler.framework.plugin_names import DYNAMIC_RESOURCES

Record = dict[str, Any]

_CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
_WAITS = "waitsForConditions"


class _WaitsForConditionsError(BaseException):
    """Ends PreBind where it would wait for a driver."""


class RecordingApi:
    """Implements the part of `framework.ApiWriter` that the plugin uses."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: dict[str, Record] = {
            each["metadata"]["name"]: {**_CLAIM, **each}
            for each in world.objects.get("resourceClaims", ())
        }
        self.calls: list[Record] = []

    async def get(self, plural: str, name: str, namespace: str) -> Any | None:
        """Return an object as the watch shows it."""
        return self._world.framework.handle.listers[plural].get(name, namespace)

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        """Record a creation; the first name is `<generateName>00001`."""
        self._record("create", plural, object=body)
        name = f"{body['metadata']['generateName']}00001"
        spec = {"devices": {"requests": body["spec"]["devices"]["requests"] or []}}
        metadata = {**body["metadata"], "name": name}
        self._claims[name] = {**_CLAIM, "metadata": metadata, "spec": spec}
        return await self._show(name, namespace)

    async def patch(
        self,
        plural: str,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        strategic: bool = False,
    ) -> Any:
        """Record a patch."""
        below = {"subresource": subresource} if subresource else {}
        given = (body.get("status") or {}).get("reservedFor") or ()
        if plural != "resourceclaims" or any("$patch" in each for each in given):
            self._record("patch", plural, **below, name=name, patch=body)
            return None
        claim = self._claims[name]
        part = "status" if subresource else "metadata"
        # As in an update, which is what kube-scheduler sends, new consumers come last.
        merge = Merger(CLAIM_RULES, new_first=False).merge if strategic else merge_patch
        claim.update(merge({part: claim.get(part, {})}, {part: body[part]}))
        if subresource:
            written = {"status": _without_time(claim["status"], body["status"])}
        else:
            written = {"finalizers": claim["metadata"]["finalizers"]}
        self._record("update", plural, **below, name=name, **written)
        return await self._show(name, namespace)

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Record a deletion."""
        self._record("delete", plural, name=name)

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Return at once: the watch shows every write."""
        assert not look()
        return True

    def _record(self, verb: str, plural: str, **fields: Any) -> None:
        self.calls.append(masked({"verb": verb, "resource": plural, **fields}))

    async def _show(self, name: str, namespace: str) -> Any:
        raw = msgspec.json.decode(msgspec.json.encode(self._claims[name]))
        raw["metadata"].pop("resourceVersion", None)
        self._world.offline.add(raw)
        self._world.offline._settle()
        shown: Any = await self.get("resourceclaims", name, namespace)
        self._claims[name]["metadata"].setdefault("uid", shown.metadata.uid)
        return shown


class RecordingHandle:
    """The handle of the profile, but for everything that leaves a trace outside."""

    def __init__(self, world: World) -> None:
        self._handle = world.framework.handle
        self.api = RecordingApi(world)
        self.background: list[Coroutine[Any, Any, None]] = []
        self.events = self.metrics = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def record(self, *_: Any, **__: Any) -> None:
        """End PreBind: the only event tells that it begins to wait."""
        raise _WaitsForConditionsError

    def count(self, *_: Any, **__: Any) -> None:
        """Count nothing."""

    observe = count

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Keep the work, to run it in the end."""
        self.background.append(work)

    def finish(self) -> list[Record]:
        """Run the work in the background, and return the calls since the last time."""
        while self.background:
            run_synchronously(self.background.pop(0))
        calls, self.api.calls = self.api.calls, []
        return calls


def _plugin(world: World) -> DynamicResources | None:
    plugin = world.framework.plugins.get(DYNAMIC_RESOURCES)
    return plugin if isinstance(plugin, DynamicResources) else None


def allocations(world: World, pod: Pod, feasible: Collection[str]) -> Record:
    """Return the allocations for each feasible node, and the requests for extended resources."""
    plugin, table = _plugin(world), world.cache.table
    if plugin is None:
        return {}
    found: Record = {"allocations": {}, "extendedResources": {}}
    for name in feasible:
        row = table.row_of(name)
        assert row is not None
        node = table.node_info(row).node
        state = CycleState(now=world.now)
        plugin.pre_filter(state, pod, table)
        made = plugin.allocations(state, node)
        if made:
            found["allocations"][name] = masked(
                [{"claim": claim.metadata.name, "allocation": each} for claim, each in made]
            )
        attempt: DeviceAttempt | None = state.get(f"{DYNAMIC_RESOURCES}/attempt")
        if attempt is not None and attempt.claims.extra is not None:
            extra, mappings = attempt.extra_claim(attempt.served(node))
            if extra is not None:
                found["extendedResources"][name] = {
                    "requests": masked(extra.spec.devices.requests) or None,
                    "mappings": masked(mappings) or None,
                }
    return {key: each for key, each in found.items() if each}


def writes(world: World, pod: Pod, node_name: str) -> Record:
    """Return the calls of Reserve, PreBind and Unreserve; changes the world."""
    plugin = _plugin(world)
    if plugin is None:
        return {}
    handle = RecordingHandle(world)
    recorded = DynamicResources(None, cast("Handle", handle))
    state = CycleState(now=world.now)
    if recorded.pre_filter(state, pod, world.cache.table) is not None:
        return {}
    found: Record = {"writesFor": node_name}
    assert recorded.reserve(state, pod, node_name) is None
    try:
        status = run_synchronously(recorded.pre_bind(state, pod, node_name))
    except _WaitsForConditionsError:
        found[_WAITS] = True
    else:
        if status is not None:
            found["preBindError"] = status.message
    found["writes"] = handle.finish()
    recorded.unreserve(state, pod, node_name)
    found["rollbackWrites"] = handle.finish()
    return {key: each for key, each in found.items() if each}


def given_up(world: World, pod: Pod, state: CycleState) -> list[Record]:
    """Return the calls of PostFilter after the attempt with this state; changes the world."""
    if _plugin(world) is None:
        return []
    handle = RecordingHandle(world)
    recorded = DynamicResources(None, cast("Handle", handle))
    claim = recorded.claim_to_give_up(state, pod)
    if claim is not None:
        run_synchronously(recorded.give_up(claim))
    return handle.finish()


def masked(value: Any) -> Any:
    """Return a value as JSON, with `<uid>` for each share."""
    return _masked(msgspec.json.decode(msgspec.json.encode(value)))


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "<uid>" if k == "shareID" else _masked(each) for k, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value


def _without_time(status: Record, patch: Mapping[str, Any]) -> Record:
    """Return a status with `<now>` in place of the time that a patch has set."""
    if "allocationTimestamp" not in (patch.get("allocation") or {}):
        return status
    return {**status, "allocation": {**status["allocation"], "allocationTimestamp": "<now>"}}
