"""Framework: the plugins of one profile, instantiated and sorted by extension point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from scheduler.api.pod import Pod
from scheduler.framework import (
    EVENT_POINTS,
    EXTENSION_POINTS,
    Code,
    ConfigurationError,
    CycleState,
    ExtensionPoint,
    Handle,
    NodeInfo,
    PreFilterResult,
    Status,
    error,
)
from scheduler.framework.plugin import (
    BIND,
    FILTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FILTER,
    PRE_SCORE,
    QUEUE_SORT,
    RESERVE,
    SCORE,
    NormalizeScorePlugin,
)
from scheduler.framework.status import status_or_none


class ProfileSpec(Protocol):
    """What the configuration layer resolves a profile to."""

    @property
    def scheduler_name(self) -> str:
        """`spec.schedulerName` of its pods."""
        ...

    @property
    def points(self) -> Mapping[str, Sequence[str]]:
        """Ordered plugin names by the extension point's YAML name."""
        ...

    @property
    def weights(self) -> Mapping[str, int]:
        """Score weight by plugin name."""
        ...

    @property
    def args(self) -> Mapping[str, Any]:
        """Decoded and validated arguments by plugin name."""
        ...

    @property
    def percentage_of_nodes_to_score(self) -> int | None:
        """None: the value of the whole configuration."""
        ...


class AttemptError(Exception):
    """Ends an attempt with an Error status; the pod is retried with backoff."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def failed(text: str, cause: BaseException | None = None, plugin: str = "") -> AttemptError:
    """An AttemptError whose message is `text`, chained to `cause`."""
    problem = AttemptError(error(text).by(plugin))
    problem.__cause__ = cause
    return problem


class Framework:
    """One profile's plugins. Stateless: what an attempt remembers is in its CycleState."""

    def __init__(
        self,
        profile: ProfileSpec,
        factories: Mapping[str, Any],
        handle: Handle,
        *,
        last_filters: Sequence[Any] = (),
    ) -> None:
        """Instantiate the profile's plugins.

        `last_filters` have PreFilter and Filter like a plugin's; they run after those of the
        profile, which knows nothing about them. Raises ConfigurationError.
        """
        self.profile_name = profile.scheduler_name
        self.percentage_of_nodes_to_score = profile.percentage_of_nodes_to_score
        self.handle = handle
        self.plugins: dict[str, Any] = {}
        for name in _names(profile):
            self.plugins[name] = _instantiate(name, factories, profile.args.get(name), handle)
        for each in last_filters:
            if each.name in self.plugins:
                raise ConfigurationError(f'plugin name "{each.name}" is kubestow\'s own')
            self.plugins[each.name] = each
        self.pre_enqueue = self._at(profile, PRE_ENQUEUE)
        self.queue_sort = self._at(profile, QUEUE_SORT)[0]
        self.pre_filter = (*self._at(profile, PRE_FILTER), *last_filters)
        #: What-ifs call these for every pod of every node they look at.
        self._following = {
            method: tuple(p for p in self.pre_filter if callable(getattr(p, method, None)))
            for method in ("add_pod", "remove_pod")
        }
        self._relaxing = tuple(p for p in self.pre_filter if callable(getattr(p, "relax", None)))
        self._naming = tuple(
            p for p in self.plugins.values() if callable(getattr(p, "unschedulable_reason", None))
        )
        self.filter = (*self._at(profile, FILTER), *last_filters)
        self.post_filter = self._at(profile, POST_FILTER)
        self.pre_score = self._at(profile, PRE_SCORE)
        self.score = self._at(profile, SCORE)
        self.reserve = self._at(profile, RESERVE)
        self.permit = self._at(profile, PERMIT)
        self.pre_bind = self._at(profile, PRE_BIND)
        self.bind = self._at(profile, BIND)
        self.post_bind = self._at(profile, POST_BIND)
        #: Plugins whose PreFilter has to be awaited, by name.
        self.awaited_pre_filters = _awaited(self.pre_filter, "pre_filter")
        #: Whether any PreFilter or PostFilter has to be awaited.
        self.asynchronous = bool(
            self.awaited_pre_filters or _awaited(self.post_filter, "post_filter")
        )
        self.weights = tuple(profile.weights.get(p.name) or 1 for p in self.score)
        self.normalizes = tuple(normalizer(p) for p in self.score)

    def _at(self, profile: ProfileSpec, point: ExtensionPoint) -> tuple[Any, ...]:
        return tuple(self.plugins[name] for name in profile.points.get(point.yaml, ()))

    def event_plugins(self) -> Iterable[Any]:
        """Plugins whose registered events may bring rejected pods back, each once."""
        for plugin in self.plugins.values():
            if any(point.implemented_by(plugin) for point in EVENT_POINTS):
                yield plugin

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """Ask every PreFilter plugin to relax (`RelaxingPlugin`); whether one does.

        Raises AttemptError when one fails.
        """
        relaxed = False
        for plugin in self._relaxing:
            try:
                relaxed = bool(plugin.relax(state, pod)) or relaxed
            except Exception as error:
                raise failed(
                    f'asking plugin "{plugin.name}" to relax: {error}', error, plugin.name
                ) from error
        return relaxed

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """What PodScheduled says instead of Unschedulable (`UnfitReasonPlugin`), if a plugin knows.

        Raises AttemptError when one fails.
        """
        for plugin in self._naming:
            try:
                found: tuple[str, str] | None = plugin.unschedulable_reason(pod)
            except Exception as error:
                raise failed(
                    f'asking plugin "{plugin.name}" for a reason: {error}', error, plugin.name
                ) from error
            if found is not None:
                return found
        return None

    def explain(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """What plugins say about a pending pod besides their verdicts, by plugin."""
        said: dict[str, tuple[str, ...]] = {}
        for plugin in self.plugins.values():
            explain = getattr(plugin, "explain", None)
            if not callable(explain):
                continue
            try:
                lines = tuple(explain(pod))
            except Exception as error:  # noqa: BLE001 - boundary: plugin call
                lines = (f"cannot explain: {error!r}",)
            if lines:
                said[plugin.name] = lines
        return said

    def run_filters(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Scalar filters on one node, real or hypothetical; the first rejection, with its plugin.

        Raises AttemptError for anything that is neither success nor rejection.
        """
        for plugin in self.filter:
            if plugin.name in state.skip_filter:
                continue
            status = call_filter(plugin, state, pod, node)
            if status is not None:
                return status
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """AddPod of every PreFilter plugin that is not skipped; AttemptError when one fails."""
        self._extensions("add_pod", "AddPod", state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """RemovePod of every PreFilter plugin that is not skipped; AttemptError when one fails."""
        self._extensions("remove_pod", "RemovePod", state, pod, removed, node)

    def follows_pods(self, skipped: Collection[str]) -> bool:
        """Whether a plugin not in `skipped` keeps state that AddPod and RemovePod change."""
        return any(
            plugin.name not in skipped
            for following in self._following.values()
            for plugin in following
        )

    def _extensions(
        self, method: str, label: str, state: CycleState, pod: Pod, other: Pod, node: NodeInfo
    ) -> None:
        for plugin in self._following[method]:
            if plugin.name in state.skip_filter:
                continue
            extension: Callable[..., Status | None] = getattr(plugin, method)
            try:
                status = status_or_none(extension(state, pod, other, node))
            except Exception as error:
                raise failed(
                    f'running {label} on PreFilter plugin "{plugin.name}": {error}', error
                ) from error
            if status is not None and not status.success:
                raise failed(
                    f'running {label} on PreFilter plugin "{plugin.name}": {status.message}'
                )


def pre_filter_result(answer: object) -> PreFilterResult | Status | None:
    """What PreFilter answers. Raises TypeError for anything else."""
    return answer if isinstance(answer, PreFilterResult) else status_or_none(answer)


def call_filter(plugin: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
    """One plugin's scalar Filter with upstream's status rules."""
    try:
        status = status_or_none(plugin.filter(state, pod, node))
    except Exception as error:
        raise failed(
            f'running "{plugin.name}" filter plugin: {error}', error, plugin.name
        ) from error
    if status is None or status.success:
        return None
    if not status.rejected:
        raise failed(f'running "{plugin.name}" filter plugin: {_cause(status)}', None, plugin.name)
    return status.by(plugin.name)


def _cause(status: Status) -> str:
    if status.code is Code.ERROR or status.message:
        return status.message
    return f"unexpected status {status.code.label}"


def _awaited(plugins: Iterable[Any], method: str) -> frozenset[str]:
    """Names of those whose `method` is a coroutine function."""
    return frozenset(
        each.name for each in plugins if inspect.iscoroutinefunction(getattr(each, method))
    )


def normalizer(plugin: Any) -> NormalizeScorePlugin | None:
    """The plugin, if it normalises."""
    return plugin if callable(getattr(plugin, "normalize_scores", None)) else None


def _names(profile: ProfileSpec) -> list[str]:
    seen: dict[str, None] = {}
    for point in EXTENSION_POINTS:
        seen.update(dict.fromkeys(profile.points.get(point.yaml, ())))
    return list(seen)


def _instantiate(name: str, factories: Mapping[str, Any], args: Any, handle: Handle) -> Any:
    try:
        return factories[name](args, handle)
    except ConfigurationError as error:
        raise ConfigurationError(
            [f'initializing plugin "{name}": {text}' for text in error.problems]
        ) from error
    except Exception as error:
        raise ConfigurationError(f'initializing plugin "{name}": {error}') from error
