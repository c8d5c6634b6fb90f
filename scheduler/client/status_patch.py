"""Patches of a pod's status: the PodScheduled condition and the nomination.

Planning is pure; a patch that would change nothing is not made. Patches carry the UID, so that they
can never hit another pod of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.client.backoff import MAX_ATTEMPTS, of_writes
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.request_sender import STRATEGIC_MERGE_PATCH
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient


class _PatchedMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Patched(msgspec.Struct):
    metadata: _PatchedMeta


_response_decoder = msgspec.json.Decoder(_Patched)


class PodStatusPatch(msgspec.Struct, frozen=True):
    """A change to one pod's status. `nominated_node_name`: None leaves it, "" clears it."""

    namespace: str
    name: str
    uid: str
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str | None = None

    def over(self, older: PodStatusPatch) -> PodStatusPatch:
        """Return this patch merged over `older`, which was not sent."""
        types = {condition.type for condition in self.conditions}
        inherited = tuple(item for item in older.conditions if item.type not in types)
        nominated = self.nominated_node_name
        return msgspec.structs.replace(
            self,
            conditions=inherited + self.conditions,
            nominated_node_name=older.nominated_node_name if nominated is None else nominated,
        )

    def encode(self) -> bytes:
        """Return the strategic merge patch: conditions merge by their type."""
        status: dict[str, Any] = {}
        if self.conditions:
            status["conditions"] = self.conditions
        if self.nominated_node_name is not None:
            status["nominatedNodeName"] = self.nominated_node_name or None
        body = {"metadata": {"uid": self.uid}, "status": status}
        try:
            return msgspec.json.encode(body)
        except UnicodeEncodeError:
            # Half a surrogate pair in a plugin's message; the standard library escapes it.
            return json.dumps(msgspec.to_builtins(body)).encode()


def plan_status_patch(
    pod: Pod,
    condition: Condition | None,
    nominated_node_name: str | None,
    now: str,
    more: Sequence[Condition] = (),
    *,
    renominate: bool = False,
) -> PodStatusPatch | None:
    """Return the patch that gives `pod` condition and nomination; None if it has them.

    `now` (RFC 3339) becomes the transition time if the condition's status value changes. A
    difference in `observedGeneration` alone is not worth a request. All `more` conditions are sent
    as soon as one condition has changed: the pod known here may be older than a patch that was not
    sent yet, and this one replaces it. For the same reason `renominate` sends a nomination that
    `pod` has already.
    """
    conditions: tuple[Condition, ...] = ()
    if condition is not None:
        conditions = _changed_condition(pod, condition, now)
    if conditions or any(_changed_condition(pod, each, now) for each in more):
        known = {each.type: each for each in pod.status.conditions}
        conditions += tuple(_kept_time(known.get(each.type), each, now) for each in more)
    if nominated_node_name == pod.status.nominated_node_name and not renominate:
        nominated_node_name = None
    if not conditions and nominated_node_name is None:
        return None
    metadata = pod.metadata
    return PodStatusPatch(
        metadata.namespace, metadata.name, metadata.uid, conditions, nominated_node_name
    )


def _changed_condition(pod: Pod, condition: Condition, now: str) -> tuple[Condition, ...]:
    for old in pod.status.conditions:
        if old.type != condition.type:
            continue
        same_status = old.status == condition.status
        if (
            same_status
            and old.reason == condition.reason
            and old.message == condition.message
            and old.last_probe_time == condition.last_probe_time
        ):
            return ()
        if same_status:
            return (_at(condition, old.last_transition_time or now),)
        break
    return (_at(condition, now),)


def _kept_time(old: Condition | None, condition: Condition, now: str) -> Condition:
    if old is None or old.status != condition.status:
        return _at(condition, now)
    return _at(condition, old.last_transition_time or now)


def _at(condition: Condition, time: str) -> Condition:
    return msgspec.structs.replace(condition, last_transition_time=time)


async def send_status_patch(
    client: ApiClient, patch: PodStatusPatch, random: Random, *, field_manager: str = ""
) -> bytes:
    """Send a patch, with up to MAX_ATTEMPTS attempts where a retry may help.

    `field_manager` is the manager that the server records in managedFields; empty means the one
    derived from the user agent.

    Returns:
        The body of the response: the patched pod.

    Raises:
        RequestError: the error of the last attempt; 404 means that the pod was deleted.
    """
    backoff = of_writes(random)
    path = PODS.path(patch.name, patch.namespace, "status")
    body = patch.encode()
    query = {"fieldManager": field_manager} if field_manager else None
    while True:
        try:
            response = await client.request(
                "PATCH", path, query=query, body=body, content_type=STRATEGIC_MERGE_PATCH
            )
        except RequestError as error:
            delay = backoff.next()
            if backoff.attempts >= MAX_ATTEMPTS or not _worth_retrying(error):
                raise
            await client.clock.sleep(delay)
        else:
            return response.body


def version_of(body: bytes) -> str:
    """Return the resourceVersion of the object in a response body; empty if there is none."""
    try:
        return decode_json(_response_decoder, body).metadata.resource_version
    except ValueError:
        return ""


def _worth_retrying(error: RequestError) -> bool:
    return error.temporary or (isinstance(error, ApiError) and error.status == 409)


def concerns_another_pod(error: RequestError) -> bool:
    """Whether a patch failed because its pod was deleted: no such name, or another UID."""
    if not isinstance(error, ApiError):
        return False
    causes = error.details.causes if error.details is not None else ()
    return error.status == 404 or any(cause.field == "metadata.uid" for cause in causes)
