"""The fields that scheduling reads: a change of another one would have no effect, so it is refused.

The types of `scheduler.api` name the fields that are read. Of some parts of a pod the other fields
of the API are listed here, so that a misspelt name can be told from one that is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from scheduler.api import pod
from scheduler.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from scheduler.framework.field_errors import child, did_you_mean, item

MAX_KEY: Final = 80
"""Characters of a name that are shown."""

UNREAD: Final[Mapping[type, frozenset[str]]] = {
    ObjectMeta: frozenset({"managedFields", "selfLink"}),
    pod.PodSpec: frozenset(
        {
            "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
            "ephemeralContainers", "hostAliases", "hostIPC", "hostPID", "hostname",
            "hostnameOverride", "imagePullSecrets", "os", "readinessGates", "restartPolicy",
            "runtimeClassName", "securityContext", "serviceAccount", "serviceAccountName",
            "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "workloadRef",
        }
    ),
    pod.Container: frozenset(
        {
            "args", "command", "env", "envFrom", "imagePullPolicy", "lifecycle", "livenessProbe",
            "readinessProbe", "resizePolicy", "securityContext", "startupProbe", "stdin",
            "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
            "volumeDevices", "volumeMounts", "workingDir",
        }
    ),
    pod.ContainerPort: frozenset({"name"}),
    pod.ResourceRequirements: frozenset({"claims"}),
    **dict.fromkeys(
        (
            LabelSelector, LabelSelectorRequirement, pod.Affinity, pod.NodeAffinity,
            pod.NodeSelector, pod.NodeSelectorRequirement, pod.NodeSelectorTerm, pod.PodAffinity,
            pod.PodAffinityTerm, pod.PodSchedulingGate, pod.PreferredSchedulingTerm, pod.Toleration,
            pod.TopologySpreadConstraint, pod.WeightedPodAffinityTerm,
        ),
        frozenset(),
    ),
}  # fmt: skip
"""By type, the fields of the API that it leaves out; types that are not listed may lack any."""


def fault_of_field(kind: type, keys: list[str], value: Any) -> str:
    """Return why setting a field of an object of this type would have no effect; empty: it may.

    A value may have fields of the API that are not read, as manifests have, but no unknown ones.

    >>> fault_of_field(pod.Pod, ["spec", "nodeSelectr"], None)
    'unknown field spec.nodeSelectr; did you mean "nodeSelector"?'
    >>> fault_of_field(pod.Pod, ["spec", "hostname"], "a")
    'scheduling does not read spec.hostname: it would change nothing'
    >>> fault_of_field(pod.Pod, ["spec", "nodeSelector", "disk"], "ssd")
    ''
    """
    at: Any = kind
    shown = ""
    for key in keys:
        fields = _fields(at)
        if fields is None:
            short = key[:MAX_KEY]
            shown = f"{shown}[{short}]" if short.isdecimal() else child(shown, short)
            at = _element(at)
        elif key in fields:
            at, shown = fields[key], child(shown, key)
        else:
            return _fault(at, key, shown)
    return _fault_of_value(at, value, shown)


def _fault_of_value(at: Any, value: Any, shown: str) -> str:
    fields = _fields(at)
    faults = []
    if isinstance(value, list):
        below = _element(at)
        faults = [_fault_of_value(below, each, item(shown, n)) for n, each in enumerate(value)]
    elif isinstance(value, dict) and fields is not None:
        unread = UNREAD.get(_plain(at))
        for key, each in value.items():
            if key in fields:
                faults.append(_fault_of_value(fields[key], each, child(shown, key)))
            elif unread is not None and key not in unread:
                faults.append(_fault(at, key, shown))
    return next(filter(None, faults), "")


def _fault(at: Any, key: str, shown: str) -> str:
    kind, short = _plain(at), key[:MAX_KEY]
    known, unread = _fields(at) or {}, UNREAD.get(kind)
    field = child(shown, short)
    if unread is None:
        return f"{field} is not a field that scheduling reads{did_you_mean(short, known)}"
    if key in unread:
        return f"scheduling does not read {field}: it would change nothing"
    return f"unknown field {field}{did_you_mean(short, (*known, *unread))}"


@cache
def _fields(at: Any) -> Mapping[str, Any] | None:
    """Return the types of fields by their names in JSON; None for what is no object of fields."""
    kind = _plain(at)
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    return {
        each.encode_name: each.type
        for each in msgspec.structs.fields(kind)
        if not each.encode_name.startswith("kubestow.io:")
    }


def _element(at: Any) -> Any:
    """Return the type of the elements of a list or mapping; Any if it is not known."""
    kind = _plain(at)
    arguments = get_args(kind)
    if get_origin(kind) in (tuple, list, frozenset, set):
        return arguments[0]
    return arguments[1] if get_origin(kind) is dict else Any


def _plain(at: Any) -> Any:
    """Return a type without None; Any for a union."""
    if get_origin(at) not in (Union, UnionType):
        return at
    rest = [each for each in get_args(at) if each is not NoneType]
    return rest[0] if len(rest) == 1 else Any
