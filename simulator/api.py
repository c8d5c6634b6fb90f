"""The API server without HTTP: verbs over the store, with strategies, admission and preconditions.

Every write goes through here, from HTTP and from controllers in the process alike. Synchronous and
atomic: a verb either stores one new version or raises `ApiError`. What HTTP adds (paths, watches,
tables, faults) is in `simulator.server`; subresources other than status are in
`simulator.subresources`.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from typing import Any, Final

from scheduler.api.stored.merging import Merger, merge_patch
from simulator import errors
from simulator.admission import AdmissionChain, AdmissionRequest, Operation, WriteOptions
from simulator.custom_resources import CustomResources
from simulator.fields import drop_disabled_fields, prune_unknown_fields, refuse_undeclared
from simulator.metadata import check_preconditions, grace_seconds, kept_metadata, uid_mismatch
from simulator.objects import JsonObject, copy_tree, dig, drop_nulls, format_time
from simulator.patch import bad_requests, json_patch
from simulator.pods import resized
from simulator.resources import Resource, ResourceTable
from simulator.schemas import causes_of, fill_defaults
from simulator.selectors import Predicate
from simulator.store import AlreadyExistsError, Store, Version
from simulator.strategies import Strategy, Surroundings, check_namespace
from simulator.workloads import PLAIN, STRATEGIES

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

EVENT_TTL: Final = 3600.0
"""Seconds an Event is kept, as kube-apiserver's default `--event-ttl`."""
_GENERATED: Final = "bcdfghjklmnpqrstvwxz2456789"
_NO_OPTIONS: Final = WriteOptions()


class Api:
    """Verbs. Owned by one event loop, as the store is."""

    def __init__(
        self,
        store: Store,
        around: Surroundings,
        resources: ResourceTable | None = None,
        *,
        admission: AdmissionChain | None = None,
        random_source: random.Random | None = None,
    ) -> None:
        self.store = store
        self.around = around
        self.clock = around.clock
        self.resources = resources or ResourceTable()
        self.admission = admission or AdmissionChain()
        CustomResources(store, self.resources)
        self._random = random_source or random.Random()
        self._mergers: dict[str, tuple[Merger, Merger]] = {}
        self._applied: dict[tuple[str, str], JsonObject] = {}
        """What each field manager last applied, by (UID, manager)."""
        self._event_expiry: deque[tuple[float, str, str]] = deque()

    def get(self, resource: Resource, namespace: str, name: str) -> Version:
        """Return the current version. Raises 404."""
        found = self.store.get(resource.table, namespace, name)
        if found is None:
            raise errors.not_found(resource.plural, resource.group, name)
        return found

    def select(
        self, resource: Resource, namespace: str, predicate: Predicate | None
    ) -> list[Version]:
        """Return current versions that the predicate lets through, in key order."""
        found = self.store.items(resource.table, namespace)
        return found if predicate is None else [one for one in found if predicate(one.obj)]

    def create(
        self,
        resource: Resource,
        namespace: str,
        body: JsonObject,
        options: WriteOptions = _NO_OPTIONS,
    ) -> Version:
        """Create an object. Takes ownership of `body`, which must be a tree of its own."""
        strategy = self._strategy(resource)
        obj = self._read(resource, namespace, body)
        meta = obj["metadata"]
        self._name(resource, meta)
        if resource.namespaced and (
            refusal := check_namespace(self.store, resource, namespace, meta["name"])
        ):
            raise refusal
        prune_unknown_fields(obj, resource, options, self.around)
        drop_disabled_fields(obj, None, resource, self.around)
        meta["uid"] = self._uid()
        meta["creationTimestamp"] = format_time(self.clock.now())
        for key in (
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ):
            meta.pop(key, None)
        if resource.generation:
            meta["generation"] = 1
        if resource.schema:
            fill_defaults(obj, resource.schema)
        strategy.default(obj, self.around)
        strategy.admit(obj, self.around)
        strategy.prepare_create(obj, resource, self.around)
        self._admit("CREATE", resource, "", namespace, obj, None, options, strategy)
        name = obj["metadata"]["name"]
        if options.dry_run:
            if self.store.get(resource.table, namespace, name):
                raise errors.already_exists(resource.plural, resource.group, name)
            return Version(namespace, name, obj, 0)
        try:
            version = self.store.create(resource.table, namespace, name, obj)
        except AlreadyExistsError:
            raise errors.already_exists(resource.plural, resource.group, name) from None
        if resource.table == "events":
            self._expire_events(namespace, name)
        return version

    def _read(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        """Check kind, name and namespace in the body and convert it to its stored form."""
        kind = body.get("kind") or resource.kind
        version = body.get("apiVersion") or resource.group_version
        if (version, kind) != (resource.group_version, resource.kind):
            raise errors.bad_request(
                f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a '
                f"{resource.kind}: the path names {resource.group_version} {resource.kind}"
            )
        drop_nulls(body)
        if not isinstance(body.get("metadata", {}), dict):
            raise errors.bad_request(f"{resource.kind}: metadata is no object")
        meta: JsonObject = body.pop("metadata", None) or {}
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        else:
            meta.pop("namespace", None)
        meta.pop("managedFields", None)
        body.pop("kind", None)
        body.pop("apiVersion", None)
        obj = {
            "kind": resource.kind,
            "apiVersion": resource.group_version,
            "metadata": meta,
            **body,
        }
        for part in ("spec", "status"):
            if part in obj and not isinstance(obj[part], dict):
                raise errors.bad_request(
                    f'{kind} in version "{resource.version}" cannot be handled as a {kind}: '
                    f"{part} is no object"
                )
        return obj if resource.view is None else resource.view.read(obj)

    def _name(self, resource: Resource, meta: JsonObject) -> None:
        if meta.get("name"):
            return
        prefix = meta.get("generateName")
        if not prefix:
            cause = errors.required_field("metadata.name", "name or generateName is required")
            raise errors.invalid(resource.kind, resource.group, "", [cause])
        meta["name"] = prefix + "".join(self._random.choices(_GENERATED, k=5))

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _expire_events(self, namespace: str, name: str) -> None:
        now = self.clock.now()
        self._event_expiry.append((now + EVENT_TTL, namespace, name))
        while self._event_expiry and self._event_expiry[0][0] <= now:
            _, old_namespace, old_name = self._event_expiry.popleft()
            if self.store.get("events", old_namespace, old_name):
                self.store.delete("events", old_namespace, old_name)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: JsonObject,
        options: WriteOptions = _NO_OPTIONS,
        *,
        subresource: str = "",
    ) -> Version:
        """Replace an object, or its status. Takes ownership of `body`."""
        current = self.get(resource, namespace, name)
        obj = self._read(resource, namespace, body)
        if obj["metadata"].setdefault("name", name) != name:
            raise errors.bad_request(
                f"the name of the object ({obj['metadata']['name']}) does not match the name on "
                f"the URL ({name})"
            )
        return self._write(resource, subresource, current, obj, options)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: str,
        options: WriteOptions = _NO_OPTIONS,
        *,
        subresource: str = "",
    ) -> Version:
        """Patch an object or its status; server-side apply creates it when it is missing."""
        if patch_type == APPLY_PATCH:
            return self._apply(resource, namespace, name, patch, options, subresource)
        current = self.get(resource, namespace, name)
        shown = current.obj if resource.view is None else resource.view.show(current.obj)
        if patch_type == JSON_PATCH:
            if not isinstance(patch, list):
                raise errors.bad_request("a JSON patch is a list of operations")
            patched = json_patch(shown, patch)
        elif not isinstance(patch, dict):
            raise errors.bad_request("a merge patch is an object")
        elif patch_type == STRATEGIC_PATCH:
            with bad_requests():
                patched = self._merger(resource)[0].merge(shown, patch)
        else:
            patched = merge_patch(shown, patch)
        requested = dig(patch, "metadata", "resourceVersion") if isinstance(patch, dict) else None
        return self._write_patched(resource, subresource, current, patched, options, requested)

    def _write_patched(
        self,
        resource: Resource,
        subresource: str,
        current: Version,
        patched: JsonObject,
        options: WriteOptions,
        requested: str | None,
    ) -> Version:
        meta = dict(patched.get("metadata") or {})
        # A patch is not an optimistic lock unless it has a resourceVersion.
        meta["resourceVersion"] = requested or ""
        if meta.get("name") != current.name:
            raise errors.bad_request("the name of the object cannot be patched")
        patched = {**patched, "metadata": meta}
        if resource.view is not None:
            patched = resource.view.read(patched)
        # Defaults and pruning write in place, and the patched tree shares branches with the store.
        obj = patched if subresource == "status" else copy_tree(patched)
        return self._write(resource, subresource, current, obj, options)

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        wanted: Any,
        options: WriteOptions,
        subresource: str,
    ) -> Version:
        if not isinstance(wanted, dict):
            raise errors.bad_request("an apply configuration is an object")
        if not options.field_manager:
            cause = errors.required_field("fieldManager", "is required for apply patch")
            raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
        refuse_undeclared(wanted, resource, namespace, name, self.around)
        drop_nulls(wanted)
        current = self.store.get(resource.table, namespace, name)
        if current is None:
            body = copy_tree(wanted)
            body.setdefault("metadata", {})["name"] = name
            version = self.create(resource, namespace, body, options)
        else:
            shown = current.obj if resource.view is None else resource.view.show(current.obj)
            before = self._applied.get((dig(current.obj, "metadata", "uid"), options.field_manager))
            with bad_requests():
                patched = self._merger(resource)[1].apply(shown, wanted, before)
            version = self._write_patched(resource, subresource, current, patched, options, None)
        if not options.dry_run:
            uid = version.obj["metadata"]["uid"]
            self._applied[(uid, options.field_manager)] = copy_tree(wanted)
        return version

    def _merger(self, resource: Resource) -> tuple[Merger, Merger]:
        found = self._mergers.get(resource.qualified)
        if found is None:
            rules = resource.merge_rules
            found = self._mergers[resource.qualified] = (
                Merger(rules),
                Merger(rules, new_first=False),
            )
        return found

    def _write(
        self,
        resource: Resource,
        subresource: str,
        current: Version,
        obj: JsonObject,
        options: WriteOptions,
    ) -> Version:
        """Check preconditions, keep what this write may not touch, validate, admit, store."""
        old = current.obj
        self._check_identity(resource, current, obj["metadata"])
        meta = obj["metadata"] = kept_metadata(obj["metadata"], old["metadata"])
        strategy = self._strategy(resource)
        if subresource == "status":
            obj = {**old, "metadata": meta, "status": obj.get("status") or {}}
        elif subresource == "resize":
            obj, causes = resized(obj, old)
            if causes:
                raise errors.invalid(resource.kind, resource.group, current.name, causes)
        else:
            prune_unknown_fields(obj, resource, options, self.around)
            drop_disabled_fields(obj, old, resource, self.around)
            if resource.schema:
                fill_defaults(obj, resource.schema)
            strategy.default(obj, self.around)
            strategy.prepare_update(obj, old, resource)
        if resource.generation and obj.get("spec") != old.get("spec"):
            obj["metadata"] = {**obj["metadata"], "generation": meta.get("generation", 0) + 1}
        self._admit("UPDATE", resource, subresource, current.namespace, obj, old, options, strategy)
        return self.replace(resource, current, obj, options)

    def _check_identity(self, resource: Resource, current: Version, meta: JsonObject) -> None:
        requested = meta.get("resourceVersion")
        if requested and requested != str(current.rv):
            raise errors.conflict(resource.plural, resource.group, current.name, errors.STALE)
        uid = meta.get("uid")
        have = current.obj["metadata"].get("uid")
        if uid and uid != have:
            raise uid_mismatch(resource, current, uid)

    def replace(
        self, resource: Resource, current: Version, obj: JsonObject, options: WriteOptions
    ) -> Version:
        """Store `obj` over `current`: the last step of every change.

        A write that changes nothing makes no version. Removing the last finalizer of a deleted
        object removes the object.
        """
        if options.dry_run:
            return Version(current.namespace, current.name, obj, current.rv)
        meta = obj["metadata"]
        if (
            meta.get("deletionTimestamp")
            and not meta.get("finalizers")
            and (resource.table != "pods" or not meta.get("deletionGracePeriodSeconds"))
            and resource.table != "namespaces"
        ):
            return self._remove(resource, current)
        if obj == current.obj:
            return current
        return self.store.update(
            resource.table, current.namespace, current.name, obj, expected=current.rv
        )

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: JsonObject | None = None,
        options: WriteOptions = _NO_OPTIONS,
    ) -> tuple[Version, bool]:
        """Delete an object; returns its last version and whether it is gone for good.

        `body` is a `DeleteOptions`. Bound pods get their grace period and wait for a kubelet,
        everything else goes at once unless finalizers hold it.
        """
        wanted = body or {}
        current = self.get(resource, namespace, name)
        check_preconditions(resource, current, wanted.get("preconditions") or {})
        request = AdmissionRequest(
            "DELETE",
            resource,
            "",
            namespace,
            name,
            current.obj,
            current.obj,
            options,
            self.store,
            self.clock,
        )
        self.admission.validate(request)
        if options.dry_run:
            return current, True
        if resource.table == "namespaces":
            return self._delete_namespace(resource, current)
        grace = grace_seconds(resource, current.obj, wanted)
        meta = current.obj["metadata"]
        if grace == 0 and not meta.get("finalizers"):
            return self._remove(resource, current), True
        pending = meta.get("deletionGracePeriodSeconds") if meta.get("deletionTimestamp") else None
        if pending is not None and grace >= pending:
            return current, False
        marked = {
            **meta,
            "deletionTimestamp": format_time(self.clock.now() + grace),
            "deletionGracePeriodSeconds": grace,
        }
        if resource.generation and pending is None:
            marked["generation"] = meta.get("generation", 0) + 1
        stored = self.store.update(
            resource.table,
            namespace,
            name,
            {**current.obj, "metadata": marked},
            expected=current.rv,
        )
        return stored, False

    def delete_collection(
        self,
        resource: Resource,
        namespace: str,
        predicate: Predicate | None,
        body: JsonObject | None = None,
        options: WriteOptions = _NO_OPTIONS,
    ) -> list[Version]:
        """Delete what the predicate lets through; returns the last versions."""
        return [
            self.delete(resource, one.namespace, one.name, body, options)[0]
            for one in list(self.select(resource, namespace, predicate))
        ]

    def _delete_namespace(self, resource: Resource, current: Version) -> tuple[Version, bool]:
        """Mark a namespace as terminating, delete its objects, then the namespace.

        The namespace controller's work, done at once.
        """
        marked = {**current.obj["metadata"], "deletionTimestamp": format_time(self.clock.now())}
        self.store.update(
            resource.table,
            "",
            current.name,
            {**current.obj, "metadata": marked, "status": {"phase": "Terminating"}},
        )
        for row in self.resources:
            if row.namespaced and "delete" in row.verbs and not row.storage:
                for one in self.store.items(row.table, current.name):
                    self.delete(row, one.namespace, one.name, {"gracePeriodSeconds": 0})
        return self.store.delete(resource.table, "", current.name), True

    def _remove(self, resource: Resource, current: Version) -> Version:
        gone = self.store.delete(
            resource.table, current.namespace, current.name, expected=current.rv
        )
        uid = current.obj["metadata"].get("uid")
        for key in [key for key in self._applied if key[0] == uid]:
            del self._applied[key]
        return gone

    def _strategy(self, resource: Resource) -> Strategy:
        return STRATEGIES.get(resource.table, PLAIN)

    def _admit(
        self,
        operation: Operation,
        resource: Resource,
        subresource: str,
        namespace: str,
        obj: JsonObject,
        old: JsonObject | None,
        options: WriteOptions,
        strategy: Strategy,
    ) -> None:
        name = obj["metadata"]["name"]
        request = AdmissionRequest(
            operation,
            resource,
            subresource,
            namespace,
            name,
            obj,
            old,
            options,
            self.store,
            self.clock,
        )
        self.admission.mutate(request)
        causes = []
        if old is None:
            causes = strategy.validate_create(obj, self.around)
        elif not subresource:
            causes = strategy.validate_update(obj, old, self.around)
        elif subresource == "status":
            causes = strategy.validate_status(obj, self.around)
        if resource.schema:
            causes = [*causes, *causes_of(obj, resource.schema)]
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)
        self.admission.validate(request)
