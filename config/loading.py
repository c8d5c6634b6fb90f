"""Reading a configuration: text in, checked and complete `Configuration` out.

Order: parse, decode, defaults, checks, then profile by profile names, sets, arguments. Mistakes
of all steps are raised together. No file is opened here and no plugin is instantiated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from config.arguments import Arguments, ArgumentsReader
from config.decoding import Decoder
from config.defaults import DEFAULT_NAMESPACE, UPSTREAM_NAMING, apply_defaults, own_naming
from config.document import Document, Scalar, parse
from config.feature_gates import FeatureGates
from config.isolation import check_isolation
from config.merging import (
    Catalogue,
    NameResolver,
    as_plugins,
    check_expanded,
    check_names,
    expand,
    merge,
)
from config.migration import report_former_names
from config.types import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    KubestowConfiguration,
    KubestowProfile,
    PluginConfig,
    PluginIsolation,
    Plugins,
)
from config.validation import refuse_upstream_names, validate, validate_header
from scheduler.framework.extension_points import BIND, QUEUE_SORT, ExtensionPoint
from scheduler.framework.field_errors import FieldErrors, item
from scheduler.framework.registry import NoArgs, Registry

_NODE_RESOURCES_FIT: Final = "NodeResourcesFit"


@dataclass(frozen=True, slots=True)
class OverrunPolicy:
    """The consequences of overruns of the time budget of plugins; see `KubestowProfile`."""

    disable: bool = False
    limit: int = 5
    window_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile ready to be instantiated."""

    scheduler_name: str
    #: None: `Configuration.percentage_of_nodes_to_score` decides.
    percentage_of_nodes_to_score: int | None
    #: Every plugin to instantiate, once.
    plugins: tuple[str, ...]
    #: Ordered plugin names by the extension point's name in YAML; every point has an entry.
    points: Mapping[str, tuple[str, ...]]
    #: Score weights, at least 1 unless written otherwise.
    weights: Mapping[str, int]
    #: The args Struct of every plugin in `plugins`. Also JSON data of plugins that are not
    #: available.
    args: Mapping[str, Arguments]
    #: See `KubestowProfile`.
    tie_breaking: str = "Random"
    #: What follows when a plugin exceeds its time budget.
    overruns: OverrunPolicy = OverrunPolicy()
    #: The plugins that run apart from the event loop.
    isolation: tuple[PluginIsolation, ...] = ()

    def without(self, plugin: str) -> ResolvedProfile | None:
        """Return the profile without one of its plugins; None if it cannot do without.

        A profile needs its QueueSort plugin and one Bind plugin.
        """
        left = {
            point: tuple(name for name in names if name != plugin)
            for point, names in self.points.items()
        }
        if not left[QUEUE_SORT.yaml] or not left[BIND.yaml]:
            return None
        return dataclasses.replace(
            self,
            plugins=tuple(name for name in self.plugins if name != plugin),
            points=MappingProxyType(left),
        )

    def at(self, point: ExtensionPoint) -> tuple[str, ...]:
        """The plugins of an extension point in the order they run."""
        return self.points[point.yaml]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything the process is configured with."""

    #: The file form with every default filled in; `profiles` is its executable counterpart.
    effective: KubeSchedulerConfiguration
    profiles: tuple[ResolvedProfile, ...]
    feature_gates: FeatureGates

    @property
    def options(self) -> KubestowConfiguration:
        """Our own process-wide options."""
        return self.effective.kubestow

    def percentage_of_nodes_to_score(self, profile: ResolvedProfile) -> int:
        """The percentage in force for a profile; 0 means that the engine decides."""
        own = profile.percentage_of_nodes_to_score
        return self.effective.percentage_of_nodes_to_score if own is None else own


FurtherChecks = Callable[[KubeSchedulerConfiguration], Iterable[tuple[str, str]]]
"""Yields pairs of a YAML path and the mistake there."""


def load_configuration(  # noqa: PLR0913 - independent keyword options of one entry point
    text: str | None,
    *,
    registry: Registry,
    default_plugins: Sequence[tuple[str, int]],
    tolerate_missing: bool = False,
    upstream: bool = False,
    allow_default_scheduler: bool = False,
    feature_gates: FeatureGates | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    overrides: Mapping[str, Any] | None = None,
    further: FurtherChecks | None = None,
) -> Configuration:
    """Read, complete and check a KubeSchedulerConfiguration.

    Args:
        text: YAML or JSON; None is a configuration with defaults only.
        registry: the available plugin classes; `module:Class` references are added to it.
        default_plugins: name and weight (0: none) of the default plugins in order.
        tolerate_missing: pass over plugins of kube-scheduler that a profile enables and the
            registry does not have.
        upstream: take upstream's names for scheduler and Lease as defaults, and allow them.
        allow_default_scheduler: allow upstream's names where they are written out.
        feature_gates: the gates in force; default: all at their defaults.
        namespace: where the Lease is kept unless the file says so (the process's own namespace).
        overrides: values by dotted path that beat the file, e.g. from command-line flags.
        further: checks for which this package lacks the means.

    Raises:
        ConfigurationError: with every problem found.
    """
    gates = feature_gates if feature_gates is not None else FeatureGates()
    catalogue = Catalogue(registry, tuple(default_plugins), tolerate_missing)
    document = parse(f"{{apiVersion: {API_VERSION}, kind: {KIND}}}" if text is None else text)
    for path, value in (overrides or {}).items():
        document.override(path, value)
    errors = document.errors
    validate_header(_scalar(document, "apiVersion"), _scalar(document, "kind"), errors)
    report_former_names(document, registry, errors)
    decoded = Decoder(errors).struct(KubeSchedulerConfiguration, document.root, "")
    assert decoded is not None  # no top-level field is required
    naming = UPSTREAM_NAMING if upstream else own_naming(namespace)
    defaulted = apply_defaults(decoded, naming)
    validate(defaulted, errors)
    for path, message in () if further is None else further(defaulted):
        errors.add(path, message)
    if not (upstream or allow_default_scheduler):
        refuse_upstream_names(defaulted, errors)
    builder = _ProfileBuilder(document, catalogue, gates, errors)
    built = [
        builder.build(index, profile, defaulted) for index, profile in enumerate(defaulted.profiles)
    ]
    _check_queue_sorts([resolved for _, resolved in built], errors)
    errors.raise_if_any()
    return Configuration(
        effective=replace(defaulted, profiles=tuple(profile for profile, _ in built)),
        profiles=tuple(resolved for _, resolved in built),
        feature_gates=gates,
    )


class _ProfileBuilder:
    """Completes the profiles and resolves them."""

    def __init__(
        self, document: Document, catalogue: Catalogue, gates: FeatureGates, errors: FieldErrors
    ) -> None:
        self._catalogue = catalogue
        self._errors = errors
        self._defaults = catalogue.default_entries(gates)
        for default in self._defaults:
            if default.name not in catalogue.registry:
                errors.add("", f'default plugin "{default.name}" is not in the registry')
        self._names = NameResolver(catalogue, errors)
        self._arguments = ArgumentsReader(document, catalogue, gates, errors, self._names)

    def build(
        self, index: int, given: KubeSchedulerProfile, whole: KubeSchedulerConfiguration
    ) -> tuple[KubeSchedulerProfile, ResolvedProfile]:
        path = item("profiles", index)
        written = self._names.listed(given.plugins or Plugins(), f"{path}.plugins")
        check_names(written, f"{path}.plugins", self._catalogue, self._errors)
        merged = merge(self._defaults, written)
        expanded = expand(merged, f"{path}.plugins", self._catalogue.registry, self._errors)
        name = given.scheduler_name or ""
        check_expanded(expanded, name, f"{path}.plugins", self._errors)
        given = self._with_declared_names(given, path)
        args = self._arguments.read(index, given, expanded.plugins)
        self._hand_over_resources(args, whole, path)
        check_isolation(
            given.kubestow.isolation,
            f"{path}.kubestow.isolation",
            expanded.plugins,
            self._catalogue.registry,
            self._errors,
        )
        profile = replace(
            given,
            plugins=as_plugins(merged, self._names.references),
            plugin_config=tuple(
                PluginConfig(name=plugin, args=value)
                for plugin, value in args.items()
                if not isinstance(value, NoArgs)
            ),
        )
        return profile, ResolvedProfile(
            scheduler_name=name,
            percentage_of_nodes_to_score=given.percentage_of_nodes_to_score,
            plugins=expanded.plugins,
            points=expanded.points,
            weights=expanded.weights,
            args=MappingProxyType(args),
            tie_breaking=given.kubestow.tie_breaking,
            overruns=_overrun_policy(given.kubestow),
            isolation=given.kubestow.isolation,
        )

    def _with_declared_names(self, given: KubeSchedulerProfile, path: str) -> KubeSchedulerProfile:
        entries = []
        for index, entry in enumerate(given.plugin_config):
            name = self._names.name(entry.name, f"{path}.pluginConfig[{index}].name")
            entries.append(replace(entry, name=name or ""))
        return replace(given, plugin_config=tuple(entries))

    def _hand_over_resources(
        self, args: dict[str, Arguments], whole: KubeSchedulerConfiguration, path: str
    ) -> None:
        """Replace the `ignoredResources` of NodeResourcesFit by those of extenders, if any."""
        ignored = tuple(
            resource.name
            for extender in whole.extenders
            for resource in extender.managed_resources
            if resource.ignored_by_scheduler
        )
        if not ignored:
            return
        fit = args.get(_NODE_RESOURCES_FIT)
        if isinstance(fit, msgspec.Struct) and hasattr(fit, "ignored_resources"):
            sequence = type(fit.ignored_resources)
            args[_NODE_RESOURCES_FIT] = replace(fit, ignored_resources=sequence(ignored))
        else:
            self._errors.add(
                f"{path}.pluginConfig",
                "can't find NodeResourcesFitArgs in plugin config: an extender has resources with "
                "ignoredByScheduler, so NodeResourcesFit must be enabled",
            )


def _overrun_policy(options: KubestowProfile) -> OverrunPolicy:
    return OverrunPolicy(
        disable=options.on_overrun == "Disable",
        limit=options.overrun_limit,
        window_seconds=options.overrun_window.total_seconds(),
    )


def _check_queue_sorts(profiles: Sequence[ResolvedProfile], errors: FieldErrors) -> None:
    """Check that profiles agree on the order of the one queue that serves them all."""
    first = profiles[0].at(QUEUE_SORT)
    for index, profile in enumerate(profiles[1:], start=1):
        own = profile.at(QUEUE_SORT)
        path = f"profiles[{index}].plugins.queueSort"
        if len(own) != 1 or len(first) != 1 or errors.has(path):
            continue
        if own != first:
            errors.add(
                path,
                f'different queue sort plugins for profile "{profile.scheduler_name}": '
                f'"{own[0]}", first: "{first[0]}"',
            )
        elif profile.args.get(own[0]) != profiles[0].args.get(own[0]):
            errors.add(
                f"profiles[{index}].pluginConfig",
                f'different queue sort plugin args for profile "{profile.scheduler_name}": '
                "queueSort must be the same for all profiles",
            )


def _scalar(document: Document, key: str) -> object:
    node = document.root.nodes.get(key)
    return node.value if isinstance(node, Scalar) else None
