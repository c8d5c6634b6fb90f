"""The protobuf that `kubectl create deployment` and its siblings send, as JSON objects.

These commands know no other form. What they send has few fields; those are listed here by their
numbers, and everything else is refused, so that no object is half-read. Numbers as in
`generated.proto` of k8s.io/api; the envelope as in `runtime/serializer/protobuf`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simulator.objects import JsonObject

PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
MAX_DEPTH: Final = 8
"""Of messages that are not read and are empty."""

Fields = Mapping[int, tuple[str, Any]]
"""Name and type by number.

A type is `text`; `number` or `flag`, with `?` if zero counts as well; `texts`, `map`, `bytes`,
`amounts`, `either` (number or text), `skip`; or the fields of a message, in a list for several.
"""

_META: Final[Fields] = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    8: ("creationTimestamp", "skip"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
}
_SELECTOR: Final[Fields] = {
    1: ("matchLabels", "map"),
    2: (
        "matchExpressions",
        [{1: ("key", "text"), 2: ("operator", "text"), 3: ("values", "texts")}],
    ),
}
_CONTAINER: Final[Fields] = {
    1: ("name", "text"),
    2: ("image", "text"),
    3: ("command", "texts"),
    4: ("args", "texts"),
    5: ("workingDir", "text"),
    6: (
        "ports",
        [
            {
                1: ("name", "text"),
                2: ("hostPort", "number"),
                3: ("containerPort", "number"),
                4: ("protocol", "text"),
            }
        ],
    ),
    7: ("env", [{1: ("name", "text"), 2: ("value", "text")}]),
    8: ("resources", {1: ("limits", "amounts"), 2: ("requests", "amounts")}),
    14: ("imagePullPolicy", "text"),
}
_POD_SPEC: Final[Fields] = {
    2: ("containers", [_CONTAINER]),
    3: ("restartPolicy", "text"),
    6: ("dnsPolicy", "text"),
    7: ("nodeSelector", "map"),
    8: ("serviceAccountName", "text"),
    9: ("serviceAccount", "text"),
    20: ("initContainers", [_CONTAINER]),
}
_TEMPLATE: Final[Fields] = {1: ("metadata", _META), 2: ("spec", _POD_SPEC)}
_JOB_SPEC: Final[Fields] = {
    1: ("parallelism", "number?"),
    2: ("completions", "number?"),
    4: ("selector", _SELECTOR),
    6: ("template", _TEMPLATE),
    7: ("backoffLimit", "number?"),
}
_RULES: Final[Fields] = {
    1: ("verbs", "texts"),
    2: ("apiGroups", "texts"),
    3: ("resources", "texts"),
    4: ("resourceNames", "texts"),
    5: ("nonResourceURLs", "texts"),
}
_SUBJECTS: Final[Fields] = {
    1: ("kind", "text"),
    2: ("apiGroup", "text"),
    3: ("name", "text"),
    4: ("namespace", "text"),
}
_EITHER: Final[Fields] = {1: ("type", "number"), 2: ("number", "number"), 3: ("text", "text")}
_ROLE: Final[Fields] = {1: ("apiGroup", "text"), 2: ("kind", "text"), 3: ("name", "text")}

_KINDS: Final[Mapping[tuple[str, str], Fields]] = {
    ("v1", "Namespace"): {},
    ("v1", "ConfigMap"): {
        2: ("data", "map"),
        3: ("binaryData", "bytes"),
        4: ("immutable", "flag?"),
    },
    ("v1", "Secret"): {2: ("data", "bytes"), 3: ("type", "text"), 4: ("stringData", "map")},
    ("v1", "ServiceAccount"): {},
    ("v1", "ResourceQuota"): {2: ("spec", {1: ("hard", "amounts"), 2: ("scopes", "texts")})},
    ("v1", "Service"): {
        2: (
            "spec",
            {
                1: (
                    "ports",
                    [
                        {
                            1: ("name", "text"),
                            2: ("protocol", "text"),
                            3: ("port", "number"),
                            4: ("targetPort", "either"),
                            5: ("nodePort", "number"),
                        }
                    ],
                ),
                2: ("selector", "map"),
                3: ("clusterIP", "text"),
                4: ("type", "text"),
                10: ("externalName", "text"),
            },
        )
    },
    ("apps/v1", "Deployment"): {
        2: (
            "spec",
            {1: ("replicas", "number?"), 2: ("selector", _SELECTOR), 3: ("template", _TEMPLATE)},
        )
    },
    ("batch/v1", "Job"): {2: ("spec", _JOB_SPEC)},
    ("batch/v1", "CronJob"): {
        2: (
            "spec",
            {
                1: ("schedule", "text"),
                3: ("concurrencyPolicy", "text"),
                5: ("jobTemplate", {1: ("metadata", _META), 2: ("spec", _JOB_SPEC)}),
            },
        )
    },
    ("scheduling.k8s.io/v1", "PriorityClass"): {
        2: ("value", "number"),
        3: ("globalDefault", "flag"),
        4: ("description", "text"),
        5: ("preemptionPolicy", "text"),
    },
    ("policy/v1", "PodDisruptionBudget"): {
        2: (
            "spec",
            {
                1: ("minAvailable", "either"),
                2: ("selector", _SELECTOR),
                3: ("maxUnavailable", "either"),
            },
        )
    },
    ("policy/v1", "Eviction"): {
        2: ("deleteOptions", {1: ("gracePeriodSeconds", "number?"), 5: ("dryRun", "texts")})
    },
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        2: (
            "spec",
            {
                1: (
                    "resourceAttributes",
                    {
                        1: ("namespace", "text"),
                        2: ("verb", "text"),
                        3: ("group", "text"),
                        4: ("version", "text"),
                        5: ("resource", "text"),
                        6: ("subresource", "text"),
                        7: ("name", "text"),
                    },
                ),
                2: ("nonResourceAttributes", {1: ("path", "text"), 2: ("verb", "text")}),
            },
        )
    },
    ("rbac.authorization.k8s.io/v1", "Role"): {2: ("rules", [_RULES])},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {2: ("rules", [_RULES])},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {
        2: ("subjects", [_SUBJECTS]),
        3: ("roleRef", _ROLE),
    },
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {
        2: ("subjects", [_SUBJECTS]),
        3: ("roleRef", _ROLE),
    },
}
"""What is read of each kind besides its metadata."""


class ProtobufError(ValueError):
    """A body that is not read; the text says why, and what to do."""


def decode(data: bytes) -> JsonObject:
    """Return the object of a body. Raises ProtobufError."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as the protobuf of Kubernetes does")
    head, raw = b"", b""
    for number, value in _entries(data[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            head = value
        elif number == 2 and isinstance(value, bytes):
            raw = value
    named = _message(head, {1: ("apiVersion", "text"), 2: ("kind", "text")}, "typeMeta")
    api_version, kind = named.get("apiVersion", ""), named.get("kind", "")
    fields = _KINDS.get((api_version, kind))
    if fields is None:
        raise ProtobufError(
            f"of {api_version} {kind} this server reads no protobuf: give kubectl a file"
        )
    return {**named, **_message(raw, {1: ("metadata", _META), **fields}, kind)}


def _message(data: bytes, fields: Fields, path: str) -> JsonObject:
    found: JsonObject = {}
    for number, value in _entries(data):
        name, kind = fields.get(number, ("", ""))
        if not name:
            if not _empty(value):
                raise ProtobufError(
                    f"{path} has field {number}, which this server does not read as protobuf: give "
                    "kubectl a file"
                )
        elif kind != "skip":
            _put(found, name, kind, value, f"{path}.{name}")
    return found


def _put(found: JsonObject, name: str, kind: Any, value: int | bytes, path: str) -> None:
    if isinstance(value, int):
        if kind in ("number", "number?", "flag", "flag?"):
            read = bool(value) if kind.startswith("flag") else _signed(value)
            if value or kind.endswith("?"):
                found[name] = read
            return
        raise ProtobufError(f"{path} is a number")
    if isinstance(kind, list):
        found.setdefault(name, []).append(_message(value, kind[0], path))
    elif isinstance(kind, Mapping):
        found[name] = _message(value, kind, path)
    elif kind == "text":
        if value:
            found[name] = _text(value, path)
    elif kind == "texts":
        found.setdefault(name, []).append(_text(value, path))
    elif kind == "either":
        either = _message(value, _EITHER, path)
        found[name] = either.get("text", "") if either.get("type") else either.get("number", 0)
    elif kind in ("map", "bytes", "amounts"):
        key, inner = _entry_of_map(value, path)
        found.setdefault(name, {})[key] = _of_map(kind, inner, f"{path}.{key}")
    else:
        raise ProtobufError(f"{path} is no {kind}")


def _entry_of_map(data: bytes, path: str) -> tuple[str, bytes]:
    key, inner = "", b""
    for number, value in _entries(data):
        if not isinstance(value, bytes):
            raise ProtobufError(f"{path} has a number in place of a text")
        if number == 1:
            key = _text(value, path)
        elif number == 2:
            inner = value
    return key, inner


def _of_map(kind: str, value: bytes, path: str) -> str:
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "amounts":
        return str(_message(value, {1: ("amount", "text")}, path).get("amount", "0"))
    return _text(value, path)


def _entries(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: a varint, or what has a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ProtobufError("the body is cut")
            yield number, data[at : at + length]
            at += length
        else:
            raise ProtobufError(
                f"the body has wire type {wire}, which Kubernetes does not use here"
            )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("the body is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtobufError("the body has a number of more than 64 bits")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: bytes, path: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"{path} is not UTF-8") from error


def _empty(value: int | bytes, depth: int = MAX_DEPTH) -> bool:
    """Whether a field that is not read says nothing: zero, or a message of such fields."""
    if isinstance(value, int):
        return not value
    try:
        return depth > 0 and all(_empty(each, depth - 1) for _, each in _entries(value))
    except ProtobufError:
        return False
