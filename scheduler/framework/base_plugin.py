"""BasePlugin: every class attribute that the framework reads, typed, with its default.

A plugin needs no base class: the framework reads each attribute with the default given here if the
class lacks it. One that inherits from `BasePlugin` has its attributes checked by mypy, and shown by
an editor.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import msgspec

from scheduler.api.meta import Named
from scheduler.framework.metric import Metric
from scheduler.framework.permissions import Permission
from scheduler.framework.registry import NoArgs
from scheduler.framework.reuse import NEVER, ReuseRule


class BasePlugin:
    """Optional base class of plugins. It has attributes only, and takes part in nothing.

    >>> class Rack(BasePlugin):
    ...     name = "example.com/Rack"
    ...     required_resources = ("services",)
    """

    #: Used in configuration, messages and metrics. Every plugin declares it.
    name: ClassVar[str]
    #: Type of the arguments, which the constructor receives decoded.
    args_type: ClassVar[type[msgspec.Struct]] = NoArgs
    #: Plurals read through `Handle.listers`, custom ones as `group/version/plural`. They are
    #: watched, and must be readable.
    required_resources: ClassVar[tuple[str, ...]] = ()
    #: Types of the objects of custom resources, by the name in `required_resources`; without one
    #: they are `scheduler.api.CustomObject`. A type derives from `scheduler.api.Named`.
    resource_types: ClassVar[Mapping[str, type[Named]]] = MappingProxyType({})
    #: Those among them without which the plugin works, and what does not happen then.
    optional_resources: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: What the plugin writes through `Handle.api`.
    permissions: ClassVar[tuple[Permission, ...]] = ()
    #: What the plugin writes through `Handle.metrics`.
    metrics: ClassVar[tuple[Metric, ...]] = ()
    #: True: another instance could not recover the state of this one, so that a reload refuses
    #: other arguments and another version of the plugin.
    restart_on_change: ClassVar[bool] = False
    #: Seconds until an asynchronous `pre_filter` or `post_filter` fails.
    timeout: ClassVar[float] = 5.0
    #: The inputs of the codes of `filter_rows` besides the pod's signature.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    #: With `NEVER`: whether the codes depend on nothing but the pod, the node table and
    #: `required_resources`.
    filter_depends_only_on_table: ClassVar[bool] = False
    #: The inputs of the raw scores of `score_rows` besides the pod's signature.
    score_reuse: ClassVar[ReuseRule | None] = NEVER
    #: Whether a final score of `normalize_scores` depends on the node's raw score and the highest
    #: one alone.
    normalizes_by_highest: ClassVar[bool] = False
    #: Whether `pre_filter` and all state that it writes depend on the pod's signature alone.
    pre_filter_reusable: ClassVar[bool] = False
    #: Whether `pre_score` and all state that it writes depend on the pod's signature alone.
    pre_score_reusable: ClassVar[bool] = False
    #: Whether the events of `events_to_register` let `permit` decide again about a waiting pod.
    permit_on_events: ClassVar[bool] = False
