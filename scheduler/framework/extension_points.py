"""The extension points of a profile: their names, and the methods that implement them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """An extension point: its names in YAML, metrics and messages, and its methods."""

    #: camelCase name, as in `profiles[].plugins`.
    yaml: str
    #: Value of the `extension_point` metric label.
    label: str
    #: Name in construction errors, e.g. `FilterPlugin`.
    interface: str
    #: A plugin that has any of these methods implements the point.
    methods: tuple[str, ...] = field(default=())

    def implemented_by(self, plugin: object) -> bool:
        """Whether `plugin` (an instance or a class) has one of the methods."""
        return any(callable(getattr(plugin, method, None)) for method in self.methods)


PRE_ENQUEUE = ExtensionPoint("preEnqueue", "PreEnqueue", "PreEnqueuePlugin", ("pre_enqueue",))
QUEUE_SORT = ExtensionPoint("queueSort", "QueueSort", "QueueSortPlugin", ("sort_key",))
PRE_FILTER = ExtensionPoint("preFilter", "PreFilter", "PreFilterPlugin", ("pre_filter",))
FILTER = ExtensionPoint("filter", "Filter", "FilterPlugin", ("filter", "filter_rows"))
POST_FILTER = ExtensionPoint("postFilter", "PostFilter", "PostFilterPlugin", ("post_filter",))
PRE_SCORE = ExtensionPoint("preScore", "PreScore", "PreScorePlugin", ("pre_score",))
SCORE = ExtensionPoint("score", "Score", "ScorePlugin", ("score", "score_rows"))
RESERVE = ExtensionPoint("reserve", "Reserve", "ReservePlugin", ("reserve",))
PERMIT = ExtensionPoint("permit", "Permit", "PermitPlugin", ("permit",))
PRE_BIND = ExtensionPoint("preBind", "PreBind", "PreBindPlugin", ("pre_bind",))
BIND = ExtensionPoint("bind", "Bind", "BindPlugin", ("bind",))
POST_BIND = ExtensionPoint("postBind", "PostBind", "PostBindPlugin", ("post_bind",))

EXTENSION_POINTS: tuple[ExtensionPoint, ...] = (
    PRE_ENQUEUE,
    QUEUE_SORT,
    PRE_FILTER,
    FILTER,
    POST_FILTER,
    PRE_SCORE,
    SCORE,
    RESERVE,
    PERMIT,
    PRE_BIND,
    BIND,
    POST_BIND,
)
"""All extension points, in the order in which a pod passes them."""

EVENT_POINTS: tuple[ExtensionPoint, ...] = (PRE_ENQUEUE, PRE_FILTER, FILTER, RESERVE, PERMIT)
"""Points whose plugins may register requeueing events (`interface.go: EnqueueExtensions`)."""
