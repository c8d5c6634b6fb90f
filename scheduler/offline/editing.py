"""Changes of a world's objects, the same for worlds and for trials."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.meta import RawQuantity
from scheduler.api.node import Node
from scheduler.api.pod import Pod, PodStatus
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.quantity_fields import located, node_amounts, pod_amounts
from scheduler.cache.cache import with_node
from scheduler.client.kinds import Kinds
from scheduler.client.resources import (
    NODES,
    PODS,
    Resource,
)
from scheduler.offline.builders import JsonObject, renamed
from scheduler.offline.local_storage import keeps_data_on_its_node
from scheduler.offline.tables import Tables
from scheduler.service.manifests import Manifests
from scheduler.service.pod_intake import check_node

_MINUS: Final = re.compile(rb'"(?:-|\\u002[dD])|:\s*-')
"""Found in the JSON of every object with a negative amount: a number, or a string."""

FINISHED: Final = ("Succeeded", "Failed")
"""Phases of pods that count no more."""


class WorldError(ValueError):
    """An object or a question that makes no sense; the text says which, and what to do."""


class Editing(ABC):
    """The changes that can be made. Every change is one that an API server would accept."""

    _tables: Tables
    #: The scheduler of pods that name none.
    _default_scheduler: str
    #: Treat every pod as one of `_default_scheduler`.
    _adopt: bool
    #: Numbers of the next copies, by plural, namespace and name of the template.
    _numbers: dict[tuple[str, str, str], int]
    #: The keys of pods whose data are on the disk of their node.
    _local_storage: set[str]
    #: Decodes what is added as an API server would store it.
    _manifests: Manifests

    @abstractmethod
    def _put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace an object. Raises QuantityError."""

    @abstractmethod
    def _take_item(self, resource: Resource[Any], item: Any) -> None:
        """Remove an object that exists; a pod ends without grace period."""

    @property
    def filled(self) -> str:
        """Say in one line what was filled in for objects that no API server has seen.

        It also names what is not known. Empty if there were no such objects.

        >>> from kubestow import offline
        >>> with offline.World() as world:
        ...     key = world.add(offline.pod("web", resources={"nvidia.com/gpu": 1}))
        ...     world.filled.split("; ")[1]
        'not known: LimitRanges'
        """
        return self._manifests.fillings.line()

    # -- any object ------------------------------------------------------------------------------

    def add(self, obj: Mapping[str, Any]) -> str:
        """Add or replace an object of any kind that scheduling reads; return its key.

        The namespace of a pod is added if there is none. Pods that have succeeded or failed count
        as removed. The key is `namespace/name`, or the name.

        Raises:
            WorldError: unknown kind, or malformed; nothing has changed.
        """
        resource, item = self._decoded(obj)
        key = resource.key(item)
        if resource is PODS and item.status.phase in FINISHED:
            known = self._tables.stores["pods"].by_key(key)
            if known is not None:
                self._take_item(PODS, known)
            return key
        if resource is PODS:
            self._need_namespace(item.metadata.namespace)
        self._put_checked(resource, item)
        return key

    def _put_checked(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises WorldError if an amount cannot be read."""
        try:
            self._put_item(resource, item)
        except QuantityError as error:
            amounts = pod_amounts(item) if resource is PODS else node_amounts(item)
            text = f"{resource.kind} {resource.key(item)}: {located(error, amounts)}"
            raise WorldError(text) from error

    def add_all(self, objects: Iterable[Mapping[str, Any]]) -> list[str]:
        """Add many objects, in order; return their keys. Raises WorldError at the first bad one."""
        return [self.add(each) for each in objects]

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object at once, a pod without grace period.

        `kind` is as in a manifest: `Node`, `Pod`, `PersistentVolumeClaim`. The namespace is
        `default` for built-in kinds that have one.

        Raises:
            WorldError: there is none.
        """
        resource = self._by_kind(kind)
        self._take_item(resource, self._get(resource, name, namespace))

    def _decoded(self, obj: Mapping[str, Any]) -> tuple[Resource[Any], Any]:
        """Decode an object of JSON, completed as an API server would. Raises WorldError."""
        resource = resource_of(obj, self._tables.kinds)
        try:
            data = msgspec.json.encode(obj)
            item = self._manifests.decode(resource, data)
        except (TypeError, ValueError) as error:
            metadata = obj.get("metadata")
            name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
            raise WorldError(f"{resource.kind} {name}: {error}") from error
        self._complete(resource, item)
        if resource is PODS and keeps_data_on_its_node(data):
            self._local_storage.add(item.key)
        return resource, item

    def _complete(self, resource: Resource[Any], item: Any) -> None:
        """Fill in what every object has. Raises WorldError for one without a name."""
        metadata = item.metadata
        if not metadata.name:
            raise WorldError(f"{resource.kind}: metadata.name is missing")
        if resource.namespaced and not metadata.namespace:
            metadata.namespace = "default"
        if not metadata.uid:
            known = self._tables.stores[resource.plural].by_key(resource.key(item))
            metadata.uid = self._new_uid() if known is None else known.metadata.uid
        if resource is PODS and (self._adopt or not item.spec.scheduler_name):
            item.spec.scheduler_name = self._default_scheduler

    # -- nodes -----------------------------------------------------------------------------------

    def add_nodes(self, template: Mapping[str, Any], count: int = 1) -> list[str]:
        """Add nodes like `template`; return their names.

        One keeps the name of the template, more are `NAME-0`, `NAME-1` and so on.
        """
        return [self.add(each) for each in self._copies(template, count, "nodes")]

    def cordon(self, name: str, *, unschedulable: bool = True) -> None:
        """Make a node unschedulable, or schedulable again. Raises WorldError if there is none."""
        node: Node = self._get(NODES, name)
        spec = msgspec.structs.replace(node.spec, unschedulable=unschedulable)
        self._put_item(NODES, msgspec.structs.replace(node, spec=spec))

    def drop_node(self, name: str) -> list[str]:
        """Remove a node with its pods; return the keys of those that are pending again.

        Pods of a DaemonSet, static pods and pods that are being deleted go with the node; of all
        others a controller would make new ones.

        Raises:
            WorldError: there is no such node.
        """
        node = self._get(NODES, name)
        lost = self._tables.pods.on_node(name)
        again = [each for each in lost if _comes_back(each)]
        for pod in lost:
            if _comes_back(pod):
                self._put_item(PODS, self._unbound(pod))
            else:
                self._take_item(PODS, pod)
        self._take_item(NODES, node)
        return [pod.key for pod in again]

    # -- pods ------------------------------------------------------------------------------------

    def add_pods(self, template: Mapping[str, Any], count: int = 1) -> list[str]:
        """Add pods like `template`; return their keys.

        One keeps the name of the template, more are `NAME-0`, `NAME-1` and so on.
        """
        if count == 1:
            return [self.add(each) for each in self._copies(template, count, "pods")]
        made = self._template(template)
        metadata = made.metadata
        self._need_namespace(metadata.namespace)
        return [
            self._put_copy(made, self._free_name("pods", metadata.namespace, metadata.name))
            for _ in range(count)
        ]

    def _template(self, obj: Mapping[str, Any]) -> Pod:
        """Decode a pod to make copies of, completed as an API server would. Raises WorldError."""
        given = obj.get("metadata") or {}
        metadata = {
            **given,
            "name": given.get("name") or "pod",
            "uid": "",
            "creationTimestamp": None,
        }
        template: Pod = self._decoded({**obj, "metadata": metadata})[1]
        return template

    def _put_copy(self, template: Pod, name: str) -> str:
        """Add a copy of a template, whose namespace exists; return its key. Raises WorldError."""
        metadata = msgspec.structs.replace(template.metadata, name=name, uid=self._new_uid())
        pod = msgspec.structs.replace(template, metadata=metadata)
        self._put_checked(PODS, pod)
        if template.key in self._local_storage:
            self._local_storage.add(pod.key)
        return pod.key

    def _need_namespaces(self, pods: Iterable[Pod]) -> None:
        """Add the namespaces of pods that do not exist."""
        for namespace in sorted({each.metadata.namespace for each in pods}):
            self._need_namespace(namespace)

    def _need_namespace(self, namespace: str) -> None:
        """Add a namespace unless there is one of this name."""
        if self._tables.stores["namespaces"].by_key(namespace) is None:
            labels = {"kubernetes.io/metadata.name": namespace}
            self.add(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": namespace, "labels": labels},
                }
            )

    def pod(self, key: str) -> Pod:
        """Return the newest state of a pod, `namespace/name`. Raises WorldError."""
        namespace, _, name = key.rpartition("/")
        pod: Pod = self._get(PODS, name, namespace)
        return pod

    def _unbound(self, pod: Pod) -> Pod:
        """Return a pending pod like a bound one, as its controller would make it."""
        metadata = msgspec.structs.replace(pod.metadata, uid=self._new_uid())
        return msgspec.structs.replace(with_node(pod, ""), metadata=metadata, status=PodStatus())

    def _copies(self, template: Mapping[str, Any], count: int, plural: str) -> Iterable[JsonObject]:
        metadata = template.get("metadata") or {}
        name, namespace = metadata.get("name", ""), metadata.get("namespace") or "default"
        if count != 1:
            yield from (self._numbered(template, plural) for _ in range(count))
        elif self._tables.get(plural, name, namespace) is None:
            yield dict(template)
        else:
            raise WorldError(
                f"{plural}: there is one with the name {name} already; give another name, or "
                "replace it with `add`"
            )

    def _numbered(self, template: Mapping[str, Any], plural: str) -> JsonObject:
        """Return a copy named `NAME-0`, or with the next number that is free."""
        metadata = template.get("metadata") or {}
        name, namespace = metadata.get("name", ""), metadata.get("namespace") or "default"
        return renamed(template, self._free_name(plural, namespace, name))

    def _free_name(self, plural: str, namespace: str, name: str) -> str:
        """Return `NAME-0`, or with the next number that is free."""
        number = self._numbers.get((plural, namespace, name), 0)
        while self._tables.get(plural, f"{name}-{number}", namespace) is not None:
            number += 1
        self._numbers[plural, namespace, name] = number + 1
        return f"{name}-{number}"

    def _get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        where = (namespace or "default") if resource.namespaced else namespace
        found = self._tables.get(resource.plural, name, where)
        if found is None:
            key = f"{where}/{name}" if where else name
            raise WorldError(f"there is no {resource.kind} {key} in this world")
        return found

    def _by_kind(self, kind: str) -> Resource[Any]:
        kinds = self._tables.kinds
        found = kinds.named(kind)
        if found is None:
            raise WorldError(f"unknown kind {kind!r}; known are {', '.join(kinds.names())}")
        return found

    def _new_uid(self) -> str:
        return self._tables.new_uid()


def checked(resource: Resource[Any], item: Any) -> None:
    """Refuse a node whose amounts cannot be read; pods are checked when they are interned.

    Raises:
        QuantityError: the amount.
    """
    if resource is NODES:
        check_node(item)


def refuse_negative_amounts(resource: Resource[Any], item: Any, data: bytes) -> None:
    """Refuse a pod or node with a negative amount, as an API server does. Raises QuantityError.

    An amount that cannot be parsed is left to those who use it. `data` is the JSON of the item.
    """
    if _MINUS.search(data) is None:
        return
    if resource is PODS:
        amounts = pod_amounts(item)
    elif resource is NODES:
        amounts = node_amounts(item)
    else:
        return
    for path, stated in amounts:
        for name, raw in stated.items():
            if str(raw).startswith("-") and _is_negative(raw):
                raise QuantityError(raw, "must not be negative", f"{path}[{name}]")


def _is_negative(raw: RawQuantity) -> bool:
    try:
        return parse(raw).nano < 0
    except QuantityError:
        return False


def resource_of(obj: Mapping[str, Any], kinds: Kinds) -> Resource[Any]:
    """Return the resource of an object of JSON. Raises WorldError for one that is not known."""
    version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    resource = kinds.of(version, kind)
    if resource is None:
        raise WorldError(
            f"{version or 'no apiVersion'} {kind or 'no kind'}: scheduling reads no such objects"
        )
    return resource


def is_daemon(pod: Pod) -> bool:
    """Whether a pod belongs to its node: one of a DaemonSet, or a static pod."""
    return any(
        each.controller and each.kind in ("DaemonSet", "Node")
        for each in pod.metadata.owner_references
    )


def _comes_back(pod: Pod) -> bool:
    return not pod.terminating and not is_daemon(pod)
