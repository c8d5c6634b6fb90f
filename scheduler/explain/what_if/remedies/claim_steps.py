"""Steps for pods with resource claims: create what is named and does not exist, or do without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import JsonObject, as_json, pointer
from scheduler.explain.what_if.remedies.situation import Situation, listed

_MISSING_CLASS: Final = re.compile(r"device class (\S+) does not exist")
MAX_CLAIMS: Final = 20
"""Missing claims that a step creates; a pod may state 256."""
MAX_COMPARED: Final = 50
"""Device classes whose names are compared with that of one that does not exist."""
MAX_NAME: Final = 253
"""Characters of a name that are compared."""
MAX_CLASSES: Final = 3
"""Device classes of which a claim with one device is tried."""


def resource_claims(situation: Situation) -> Iterator[Step]:
    """Create the claim, template or class that is named, or do without resource claims."""
    yield from _missing_claims(situation)
    for name in dict.fromkeys(_MISSING_CLASS.findall(situation.reasons)):
        yield from _missing_class(situation, name)
    spec = situation.spec
    claims = spec.get("resourceClaims") or []
    if not claims:
        return
    changes = [situation.set_pod("/spec/resourceClaims", None)]
    changes += [
        situation.set_pod(pointer("spec", field, index, "resources", "claims"), None)
        for field in ("containers", "initContainers")
        for index, container in enumerate(spec.get(field, []))
        if (container.get("resources") or {}).get("claims")
    ]
    shown = listed([each.get("name", "") for each in claims])
    text = f"do without resource claims ({shown})"
    yield Step(Code.DROP_RESOURCE_CLAIMS, text, tuple(changes), 8.0)


def _missing_class(situation: Situation, name: str) -> Iterator[Step]:
    """Create a device class, or name the existing one whose name is most similar."""
    known = sorted(each.metadata.name for each in situation.trial.objects("DeviceClass"))
    near = next(iter(get_close_matches(name[:MAX_NAME], known[:MAX_COMPARED], 1, 0.0)), "")
    asking = list(_requests_of(situation, name))
    if near and asking:
        changes = tuple(
            Change("set", "ResourceClaim", key, f"{path}/deviceClassName", near)
            for key, path in asking
        )
        shown = listed(sorted({key.partition("/")[2] for key, _ in asking}))
        text = f"name device class {near} instead of {name} in claim {shown}"
        yield Step(Code.CORRECT_VALUE, text, changes, 4.9)
    other = f", or name {near} in the claim" if near else ""
    # Without selectors it has every device; those of the request choose among them.
    made = Change("add", "DeviceClass", name, value={"metadata": {"name": name}, "spec": {}})
    text = f"create device class {name}"
    yield Step(Code.CREATE_DEVICE_CLASS, f"{text}{other}", (made,), 5.0)
    if asking:
        keys = dict.fromkeys(key for key, _ in asking)
        nothing = (Change("set", "ResourceClaim", key, "/spec/devices", None) for key in keys)
        text = f"{text} (its devices were not tried){other}"
        yield Step(Code.CREATE_DEVICE_CLASS, text, (made, *nothing), 5.2)


def _requests_of(situation: Situation, name: str) -> Iterator[tuple[str, str]]:
    """Yield the key of each claim of the pod that asks for a device class, and a JSON pointer."""
    namespace = situation.pod.metadata.namespace
    names = [each.get("resourceClaimName") for each in situation.spec.get("resourceClaims") or []]
    names += [each.resource_claim_name for each in situation.pod.status.resource_claim_statuses]
    for key in dict.fromkeys(f"{namespace}/{each}" for each in names[:MAX_CLAIMS] if each):
        claim = situation.trial.find("ResourceClaim", key)
        if claim is None:
            continue
        requests = as_json(claim).get("spec", {}).get("devices", {}).get("requests") or []
        for index, each in enumerate(requests):
            if (each.get("exactly") or {}).get("deviceClassName") == name:
                yield key, pointer("spec", "devices", "requests", index, "exactly")


def _missing_claims(situation: Situation) -> Iterator[Step]:
    """Create the claims that the pod names, or the templates of those that were not made."""
    pod = situation.pod
    entries = situation.spec.get("resourceClaims") or []
    named = {each.get("resourceClaimName") for each in entries} - {None}
    missing = sorted(
        name
        for name in named
        if situation.trial.find("ResourceClaim", f"{pod.metadata.namespace}/{name}") is None
    )
    meant = situation.meant("ResourceClaim", missing)
    for index, each in enumerate(entries):
        name = each.get("resourceClaimName") or ""
        if near := meant.get(name):
            path = pointer("spec", "resourceClaims", index, "resourceClaimName")
            text = f"name resource claim {near} instead of {name}"
            yield Step(Code.CORRECT_VALUE, text, (situation.set_pod(path, near),), 1.9)
    if 0 < len(missing) <= MAX_CLAIMS:
        text = f"create resource claim {listed(missing)}"
        yield from _created(situation, Code.CREATE_RESOURCE_CLAIM, text, missing, owners=())
    made = list(pod.status.resource_claim_statuses)
    known = {each.name for each in made}
    templates = {
        each["name"]: each["resourceClaimTemplateName"]
        for each in entries
        if each.get("resourceClaimTemplateName") and each["name"] not in known
    }
    if 0 < len(templates) <= MAX_CLAIMS:
        # Scheduling reads no templates: the steps add what their controller makes of them.
        claims = {entry: f"{pod.metadata.name[:150]}-{entry}" for entry in templates}
        statuses = [as_json(each) for each in made]
        statuses += [{"name": entry, "resourceClaimName": name} for entry, name in claims.items()]
        named_in_status = situation.set_pod("/status/resourceClaimStatuses", statuses)
        metadata = pod.metadata
        owner: JsonObject = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name}
        owner |= {"uid": metadata.uid, "controller": True}
        text = f"create resource claim template {listed(sorted(set(templates.values())))}"
        code = Code.CREATE_RESOURCE_CLAIM_TEMPLATE
        for step in _created(situation, code, text, sorted(claims.values()), owners=(owner,)):
            yield replace(step, changes=(*step.changes, named_in_status))


def _created(
    situation: Situation, code: Code, text: str, names: list[str], *, owners: tuple[JsonObject, ...]
) -> Iterator[Step]:
    """Create claims for one device each, or that ask for nothing: for what they are is not known.

    Of those that fit, the first one is shown.
    """
    namespace = situation.pod.metadata.namespace

    def changes(spec: JsonObject) -> tuple[Change, ...]:
        metadata: JsonObject = {"namespace": namespace, "ownerReferences": list(owners)}
        return tuple(
            Change(
                "add",
                "ResourceClaim",
                f"{namespace}/{name}",
                value={"metadata": {**metadata, "name": name}, "spec": spec},
            )
            for name in names
        )

    classes = sorted(each.metadata.name for each in situation.trial.objects("DeviceClass"))
    for name in classes[:MAX_CLASSES]:
        request = {"name": "device", "exactly": {"deviceClassName": name}}
        found = changes({"devices": {"requests": [request]}})
        device = f"{text} for a device of class {name}, or correct the name in the pod"
        yield Step(code, device, found, 5.0)
    nothing = f"{text} (its devices were not tried), or correct the name in the pod"
    yield Step(code, nothing, changes({}), 5.2)
