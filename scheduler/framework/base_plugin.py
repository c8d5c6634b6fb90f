"""BasePlugin: every class attribute that the framework reads, typed, with its default.

A plugin needs no base class: if its class lacks an attribute, the framework uses the default given
here. Inheriting from `BasePlugin` lets mypy check the attributes, and an editor complete them.
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
    """Optional base class of plugins. It has class attributes only, and no behaviour.

    >>> class Rack(BasePlugin):
    ...     name = "example.com/Rack"
    ...     required_resources = ("services",)
    """

    #: Used in configuration, messages and metrics. Every plugin declares it.
    name: ClassVar[str]
    #: Struct type of the plugin's arguments, which the constructor receives decoded.
    args_type: ClassVar[type[msgspec.Struct]] = NoArgs
    #: Plurals of the resources that the plugin reads through `Handle.listers`; a custom resource as
    #: `group/version/plural`. The scheduler watches them, so RBAC must allow that.
    required_resources: ClassVar[tuple[str, ...]] = ()
    #: Types to decode custom resources into, by their name in `required_resources`; the default is
    #: `kubestow.plugin.CustomObject`. Each type derives from `kubestow.plugin.Named`.
    resource_types: ClassVar[Mapping[str, type[Named]]] = MappingProxyType({})
    #: Those of `required_resources` that the plugin can do without, and what it then does not do.
    optional_resources: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: Permissions for the writes of the plugin through `Handle.api`.
    permissions: ClassVar[tuple[Permission, ...]] = ()
    #: Metrics that the plugin writes through `Handle.metrics`.
    metrics: ClassVar[tuple[Metric, ...]] = ()
    #: Whether a new instance could not recover the state of the old one. A reload of the
    #: configuration then refuses changed arguments and another version of the plugin.
    restart_on_change: ClassVar[bool] = False
    #: Seconds after which an asynchronous `pre_filter` or `post_filter` fails.
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
    #: Whether `permit` runs again for a waiting pod after an event of `events_to_register`.
    permit_on_events: ClassVar[bool] = False
