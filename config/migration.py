"""Former versions of the configuration: what to change in a file that was written for one.

From upstream's page "Scheduler configuration migrations" and KEP-785. Names and fields that v1 does
not have any more are reported where they stand, in a v1 file as well, since changing only the
apiVersion of an old file leads to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from config.document import Document, Entries, Items, Scalar
from config.types import API_VERSION, KIND, POINTS
from scheduler.framework.field_errors import FieldErrors, item

GROUP: Final = API_VERSION.partition("/")[0]

FORMER_VERSIONS: Final = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")
"""Oldest first. kube-scheduler dropped the last of them in Kubernetes 1.29."""

_NOTES: Final = {
    "v1alpha2": "extenders[].enableHttps is enableHTTPS now",
    "v1beta1": "a plugin that the file enables now takes precedence over its default entry",
    "v1beta2": (
        "the default weights of InterPodAffinity (1, now 2), NodeAffinity (1, now 2) and "
        "TaintToleration (1, now 3) changed: set weights under plugins.multiPoint to keep yours"
    ),
}
"""Changes after a version that no name in the file shows."""

_STRATEGY: Final = "use NodeResourcesFit with scoringStrategy.type {} in its arguments"

FORMER_PLUGINS: Final[Mapping[str, str]] = {
    "NodeLabel": "use NodeAffinity",
    "NodePreferAvoidPods": "use taints of nodes, which TaintToleration scores",
    "NodeResourcesLeastAllocated": _STRATEGY.format("LeastAllocated"),
    "NodeResourcesMostAllocated": _STRATEGY.format("MostAllocated"),
    "RequestedToCapacityRatio": _STRATEGY.format("RequestedToCapacityRatio"),
    "SelectorSpread": "use PodTopologySpread",
    "ServiceAffinity": "use InterPodAffinity",
}
"""Plugins that v1 does not have, and what takes their place."""

FORMER_FIELDS: Final[Mapping[str, str]] = {
    "algorithmSource": "list plugins under profiles[].plugins",
    "bindTimeoutSeconds": "it is an argument of VolumeBinding in profiles[].pluginConfig",
    "disablePreemption": "disable DefaultPreemption under profiles[].plugins.postFilter",
    "hardPodAffinitySymmetricWeight": "it is hardPodAffinityWeight of InterPodAffinity's arguments",
    "healthzBindAddress": "use the flags --bind-address and --secure-port",
    "metricsBindAddress": "use the flags --bind-address and --secure-port",
    "schedulerName": "write it into a profile: profiles[].schedulerName",
}
"""Top-level fields that v1 does not have, and where their meaning went."""


def version_problem(api_version: object) -> str:
    """Describe an apiVersion that is not v1, with what a former one has to change."""
    text = f'no kind "{KIND}" is registered for version "{api_version}"; write {API_VERSION}'
    group, _, version = str(api_version).partition("/")
    if group != GROUP or version not in FORMER_VERSIONS:
        return text
    since = FORMER_VERSIONS[FORMER_VERSIONS.index(version) :]
    notes = [_NOTES[each] for each in reversed(since) if each in _NOTES]
    names = "removed plugins and fields are reported where they stand"
    return "; ".join([f"{text}. Since {version}: {names}", *notes])


def report_former_names(
    document: Document, available: Collection[str], errors: FieldErrors
) -> None:
    """Report plugins and fields of former versions, unless a plugin of that name is available."""
    for field, advice in FORMER_FIELDS.items():
        if field in document.root.nodes:
            errors.add(field, f"was removed before v1: {advice}")
    for path, name in _plugin_names(document):
        if name in FORMER_PLUGINS and name not in available:
            errors.add(path, f'plugin "{name}" was removed before v1: {FORMER_PLUGINS[name]}')
    for index, profile in enumerate(_entries(document, ("profiles",))):
        plugins = profile.nodes.get("plugins")
        if isinstance(plugins, Entries) and "unreserve" in plugins.nodes:
            path = f"{item('profiles', index)}.plugins.unreserve"
            errors.add(path, "was removed before v1: name the plugins under reserve")


def _plugin_names(document: Document) -> Iterator[tuple[str, str]]:
    """Yield path and value of every plugin name."""
    profiles = document.find(("profiles",))
    for index in range(len(profiles.nodes) if isinstance(profiles, Items) else 0):
        places: list[tuple[str | int, ...]] = [("pluginConfig",)]
        places += [("plugins", point, side) for point in POINTS for side in ("enabled", "disabled")]
        for place in places:
            path = ".".join([item("profiles", index), *map(str, place)])
            for position, entry in enumerate(_entries(document, ("profiles", index, *place))):
                name = entry.nodes.get("name")
                if isinstance(name, Scalar) and isinstance(name.value, str):
                    yield f"{item(path, position)}.name", name.value


def _entries(document: Document, path: tuple[str | int, ...]) -> list[Entries]:
    """Return the mappings of a list; others in it, which decoding reports, become empty ones."""
    node = document.find(path)
    nodes = node.nodes if isinstance(node, Items) else []
    return [each if isinstance(each, Entries) else Entries() for each in nodes]
