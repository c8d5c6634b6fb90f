"""Permission: an RBAC permission that a plugin or the service needs, and its purpose.

Plugins list their permissions in the class attribute `permissions`. The permissions to list and
watch the resources in `required_resources` are implied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """An RBAC rule for one resource, and its purpose."""

    #: Plural, with the subresource if there is one: `pods/binding`. Empty if `urls` is given.
    resource: str = ""
    verbs: tuple[str, ...]
    #: Who needs it, and what for: `DefaultBinder: placing a pod`.
    purpose: str
    #: What does not work without it. Empty: no pod can be scheduled, so it is required.
    without: str = ""
    #: Whether only some pods need it. If it is missing, only the attempts at these pods report it.
    on_demand: bool = False
    group: str = ""
    #: Empty: all namespaces, or a cluster-scoped resource.
    namespace: str = ""
    #: Names of the objects; empty: all.
    names: tuple[str, ...] = ()
    #: Non-resource URLs, such as `/debug/queue`.
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the fields.

        Raises:
            ValueError: `verbs` is empty or not a tuple, or not exactly one of `resource` and `urls`
                is given.
        """
        if not isinstance(cast("object", self.verbs), tuple) or not self.verbs:
            raise ValueError(f'Permission: verbs={self.verbs!r}: write a tuple, such as ("list",)')
        if bool(self.resource) == bool(self.urls):
            raise ValueError(f"Permission of {self.verbs}: give either `resource` or `urls`")

    @property
    def required(self) -> bool:
        """Whether no pod can be scheduled without this permission."""
        return not self.without

    @property
    def qualified(self) -> str:
        """The resource with its group, as `poddisruptionbudgets.policy`; otherwise the URLs."""
        if not self.resource:
            return ", ".join(self.urls)
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource
