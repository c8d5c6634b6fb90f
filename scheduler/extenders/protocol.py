"""Bodies of requests to HTTP extenders and of their responses (`extender/v1/types.go`).

Requests are assembled from the bytes of pods and nodes as the API server sent them, so that an
extender sees every field. Responses are decoded with case-insensitive keys, as in Go, and strictly
otherwise: anything else raises `MalformedResponseError` with the reason. Pure; no HTTP here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.framework.preemption import Candidate

MIN_EXTENDER_SCORE: Final = 0
MAX_EXTENDER_SCORE: Final = 10
"""Extenders score from 0 to 10; plugins from 0 to 100."""

_MAX_QUOTED_NAMES: Final = 3


class MalformedResponseError(Exception):
    """A response that cannot be used; the text gives the reason."""


class ExtenderResultError(MalformedResponseError):
    """A well-formed response in which the extender reports an error of its own."""


@dataclass(frozen=True, slots=True)
class PrioritizeResponse:
    """An extender's scores, by node name (`HostPriorityList`)."""

    scores: dict[str, int]
    #: Description of the first unusual entry; empty if there is none.
    unusual: str = ""


@dataclass(frozen=True, slots=True)
class FilterResponse:
    """An extender's split of the nodes it was sent (`ExtenderFilterResult`)."""

    #: Names of the nodes that pass, in the extender's order.
    passing: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims that an extender kept on a node."""

    uids: tuple[str, ...] = ()
    pdb_violations: int = 0


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _NodeList(msgspec.Struct):
    items: list[_Named] | None = None


# -- requests -------------------------------------------------------------------------------------


def nodes_request(pod: bytes, names: Sequence[str], nodes: Iterable[bytes] | None) -> bytes:
    """Return the body of `filter` and `prioritize`; without `nodes`, names (nodeCacheCapable)."""
    if nodes is None:
        listed, named = b"null", msgspec.json.encode(names)
    else:
        listed, named = b'{"metadata":{},"items":[' + b",".join(nodes) + b"]}", b"null"
    return b'{"Pod":' + pod + b',"Nodes":' + listed + b',"NodeNames":' + named + b"}"


def preemption_request(
    pod: bytes, candidates: Iterable[tuple[Candidate, Sequence[bytes] | None]]
) -> bytes:
    """Return the body of `preempt`: candidates with their victims' bytes, or None for UIDs."""
    whole: list[bytes] = []
    short: list[bytes] = []
    for candidate, victims in candidates:
        name = msgspec.json.encode(candidate.node_name)
        violations = str(candidate.pdb_violations).encode()
        if victims is None:
            pods = msgspec.json.encode([{"UID": each.metadata.uid} for each in candidate.victims])
            target = short
        else:
            pods = b"[" + b",".join(victims) + b"]"
            target = whole
        target.append(name + b':{"Pods":' + pods + b',"NumPDBViolations":' + violations + b"}")
    return (
        b'{"Pod":' + pod
        + b',"NodeNameToVictims":' + _object(whole)
        + b',"NodeNameToMetaVictims":' + _object(short) + b"}"
    )  # fmt: skip


def _object(members: Sequence[bytes]) -> bytes:
    return b"{" + b",".join(members) + b"}" if members else b"null"


def binding_request(pod: Pod, node_name: str) -> bytes:
    """Return the body of `bind`."""
    metadata = pod.metadata
    return msgspec.json.encode(
        {
            "PodName": metadata.name,
            "PodNamespace": metadata.namespace,
            "PodUID": metadata.uid,
            "Node": node_name,
        }
    )


# -- responses ------------------------------------------------------------------------------------


def parse_filter_response(body: bytes, given: Sequence[str], *, names: bool) -> FilterResponse:
    """Decode ExtenderFilterResult; with `names`, of an extender that is nodeCacheCapable.

    Raises MalformedResponseError, also for nodes that are not among those `given`.
    """
    members = _members(body)
    _raise_reported(members)
    named = _member(members, "NodeNames", list[str] | None) if names else None
    listed = None if named is not None else _member(members, "Nodes", _NodeList | None)
    passing = tuple(named or ())
    if listed is not None:
        passing = tuple(each.metadata.name for each in listed.items or ())
    known = frozenset(given)
    unknown = [name for name in passing if name not in known]
    if unknown:
        raise MalformedResponseError(
            f"claims a filtered node {_quoted(unknown)} which is not found in the input node list"
        )
    return FilterResponse(
        tuple(dict.fromkeys(passing)),
        _member(members, "FailedNodes", dict[str, str] | None) or {},
        _member(members, "FailedAndUnresolvableNodes", dict[str, str] | None) or {},
    )


def parse_prioritize_response(body: bytes, given: Sequence[str]) -> PrioritizeResponse:
    """Decode HostPriorityList. Raises MalformedResponseError.

    Scores outside 0 to 10 count as they are, and nodes that were not sent are left out, both as in
    kube-scheduler (`schedule_one.go: prioritizeNodes`).
    """
    known = frozenset(given)
    scores: dict[str, int] = {}
    unusual = ""
    for index, entry in enumerate(_decoded(body, list[dict[str, msgspec.Raw]] | None) or ()):
        members = _lowered(entry)
        where = f"[{index}]."
        host = _member(members, "Host", str | None, where) or ""
        score = _member(members, "Score", int | None, where) or 0
        if host not in known:
            unusual = unusual or f"scores a node {_quoted([host])} that was not sent to it"
            continue
        if not MIN_EXTENDER_SCORE <= score <= MAX_EXTENDER_SCORE:
            unusual = unusual or (
                f'gives node "{host}" the score {score}, which is not in the range of '
                f"[{MIN_EXTENDER_SCORE}, {MAX_EXTENDER_SCORE}]"
            )
        scores[host] = score
    return PrioritizeResponse(scores, unusual)


def parse_preemption_response(body: bytes) -> dict[str, Victims]:
    """Decode ExtenderPreemptionResult: the remaining victims by node name.

    Raises MalformedResponseError.
    """
    members = _members(body)
    nodes = _member(
        members, "NodeNameToMetaVictims", dict[str, dict[str, msgspec.Raw] | None] | None
    )
    found: dict[str, Victims] = {}
    for name, entry in (nodes or {}).items():
        victims = _lowered(entry)
        where = f"NodeNameToMetaVictims[{name}]."
        pods = _member(victims, "Pods", list[dict[str, msgspec.Raw] | None] | None, where) or ()
        uids = [_member(_lowered(each), "UID", str, where) for each in pods]
        violations = _member(victims, "NumPDBViolations", int | None, where) or 0
        found[name] = Victims(tuple(uid or "" for uid in uids), violations)
    return found


def parse_binding_response(body: bytes) -> None:
    """Check ExtenderBindingResult. Raises ExtenderResultError when the extender did not bind."""
    _raise_reported(_members(body))


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    return _lowered(_decoded(body, dict[str, msgspec.Raw] | None))


def _lowered(members: Mapping[str, msgspec.Raw] | None) -> dict[str, msgspec.Raw]:
    return {key.lower(): value for key, value in (members or {}).items()}


def _member(members: Mapping[str, msgspec.Raw], name: str, wanted: Any, where: str = "") -> Any:
    raw = members.get(name.lower())
    return None if raw is None else _decoded(bytes(raw), wanted, where + name)


def _decoded(body: bytes, wanted: Any, where: str = "") -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (ValueError, RecursionError) as error:
        place = f"{where}: " if where else ""
        raise MalformedResponseError(f"malformed response: {place}{error}") from error


def _raise_reported(members: Mapping[str, msgspec.Raw]) -> None:
    text = _member(members, "Error", str | None)
    if text:
        raise ExtenderResultError(text)


def _quoted(names: Sequence[str]) -> str:
    """Return a few names, quoted; long names are truncated."""
    shown = ", ".join(f'"{name[:253]}"' for name in names[:_MAX_QUOTED_NAMES])
    more = len(names) - _MAX_QUOTED_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
