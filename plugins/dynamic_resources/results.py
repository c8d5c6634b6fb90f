"""The result of an allocation in the form that is stored in the status of a claim.

Upstream: `allocator_incubating.go: Allocate` (its second half) and `createNodeSelector`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.requests import ClaimView, RequestView
from plugins.dynamic_resources.search import Taken
from scheduler.api.devices import (
    AllocationResult,
    ClaimConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from scheduler.api.node_selectors import METADATA_NAME
from scheduler.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.selectors import IN


def allocation_result(
    claim: ClaimView,
    taken: list[Taken],
    node: str,
    features: Features,
    new_share_id: Callable[[], str],
) -> AllocationResult:
    """Return the allocation of a claim; raises `AllocationError` for an unknown node selector."""
    results = tuple(_device_result(each, features, new_share_id) for each in taken)
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=tuple(_configuration(claim, taken))),
        node_selector=_node_selector(claim, taken, node, features),
    )


def _device_result(
    taken: Taken, features: Features, new_share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    spec, device = taken.device.spec, taken.device.id
    conditions = spec.binding_conditions if features.binding_conditions else None
    failures = spec.binding_failure_conditions if features.binding_conditions else None
    return DeviceRequestAllocationResult(
        request=taken.request.qualified_name,
        driver=device.driver,
        pool=device.pool,
        device=device.device,
        admin_access=True if taken.request.admin_access else None,
        tolerations=taken.request.tolerations,
        binding_conditions=conditions or (),
        binding_failure_conditions=failures or (),
        share_id=new_share_id() if taken.is_shared else None,
        consumed_capacity={name: str(each) for name, each in taken.consumed.items()},
    )


def _node_selector(
    claim: ClaimView, taken: list[Taken], node: str, features: Features
) -> NodeSelector | None:
    labels: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for each in taken:
        nodes = each.device.nodes
        bound = features.binding_conditions and each.device.spec.binds_to_node is True
        if nodes.node_name or bound:
            requirement = NodeSelectorRequirement(key=METADATA_NAME, operator=IN, values=(node,))
            return NodeSelector(
                node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),)
            )
        if nodes.selector is None or nodes.all_nodes:
            continue
        terms = nodes.selector.node_selector_terms
        if len(terms) != 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        _append(labels, terms[0].match_expressions)
        _append(fields, terms[0].match_fields)
    if not labels and not fields:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(labels), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _append(known: list[NodeSelectorRequirement], added: Iterable[NodeSelectorRequirement]) -> None:
    for each in added:
        if not any(_same(each, other) for other in known):
            known.append(each)


def _same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, frozenset(one.values)) == (
        other.key,
        other.operator,
        frozenset(other.values),
    )


def _configuration(claim: ClaimView, taken: list[Taken]) -> Iterator[ClaimConfiguration]:
    chosen = {each.request.parent: each.request for each in taken}
    # The configuration of each class appears once, with all requests that refer to the class.
    names: dict[str, list[str]] = {}
    classes = {}
    for request in claim.requests:
        used = chosen.get(request.parent, request) if request.alternatives else request
        if used.device_class is not None:
            name = used.device_class.metadata.name
            classes[name] = used.device_class
            names.setdefault(name, []).append(used.qualified_name)
    every = [_names(request, chosen.get(request.parent)) for request in claim.requests]
    for name, device_class in classes.items():
        for each in device_class.spec.config:
            requests = _shortest(names[name], every)
            yield ClaimConfiguration(source="FromClass", requests=requests, opaque=each.opaque)
    for config in claim.claim.spec.devices.config:
        named = set(config.requests)
        if not named or any(not named.isdisjoint(each) for each in every):
            requests = _shortest(config.requests, every)
            yield ClaimConfiguration(source="FromClaim", requests=requests, opaque=config.opaque)


def _names(request: RequestView, chosen: RequestView | None) -> set[str]:
    """Return the names by which an entry can refer to a request: also that of an alternative."""
    if not request.alternatives or chosen is None:
        return {request.parent}
    return {request.parent, chosen.qualified_name}


def _shortest(requests: Sequence[str], every: Iterable[AbstractSet[str]]) -> tuple[str, ...]:
    """Return the requests that an entry names; none, which means all, if it names every one."""
    if all(not each.isdisjoint(requests) for each in every):
        return ()
    return tuple(requests)
