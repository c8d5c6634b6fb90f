"""Object metadata shared by every Kubernetes kind.

All structs of this package hold only the fields that scheduling reads; unknown fields are ignored
when decoding. Objects are immutable by convention once decoded: caches and the queue share them
freely.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

RawQuantity = str | int | float
"""A quantity as it appears in JSON; `scheduler.api.quantity` gives it a meaning."""

ResourceList = dict[str, RawQuantity]
"""Resource name to raw quantity, as in `resources.requests`."""


class Object(msgspec.Struct, rename="camel", kw_only=True, gc=False, omit_defaults=True):
    """Base of every struct here: camelCase in JSON, snake_case in Python, not tracked by GC."""


class Value(
    msgspec.Struct, rename="camel", kw_only=True, gc=False, omit_defaults=True, frozen=True
):
    """Base of small value types: hashable, comparable, shared."""


class OwnerReference(Value, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Object):
    """`metadata`. Timestamps stay RFC 3339 text; few are ever parsed."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    generate_name: str = ""
    finalizers: tuple[str, ...] = ()


class LabelSelectorRequirement(Value, frozen=True):
    """One entry of `matchExpressions` in a label selector."""

    #: Key of the label.
    key: str = ""
    #: Relation of the label to `values`.
    operator: str = ""
    #: Some for `In` and `NotIn`, none for the others.
    values: tuple[str, ...] = ()


class LabelSelector(Object):
    """`metav1.LabelSelector`; absent (None) and empty mean opposite things, see `selectors`."""

    #: Labels and the values that they must have.
    match_labels: dict[str, str] = {}
    #: Further requirements, of which all must hold.
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Object):
    """A condition of a pod, node or other status. `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class Named(Object):
    """Base of all objects with metadata; itself for objects of which nothing else is read."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


def parse_time(text: str) -> float | None:
    """Return an RFC 3339 time as seconds since the epoch; None if it is malformed.

    >>> parse_time("1970-01-01T00:00:01.5Z")
    1.5
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def second_time(epoch: float) -> str:
    """Format wall time as Kubernetes' Time: RFC 3339 in UTC with whole seconds.

    >>> second_time(1700000000.5)
    '2023-11-14T22:13:20Z'
    """
    return f"{datetime.fromtimestamp(epoch, UTC).isoformat(timespec='seconds')[:-6]}Z"
