"""Permission: what a plugin, or the service, may have to do at the API server, and why.

Plugins list theirs in the class attribute `permissions`. Reading needs no entry: what a plugin
names in `required_resources` is listed and watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """A rule of RBAC with one resource, and what it is for."""

    #: Plural, with the subresource if there is one: `pods/binding`. Empty: `urls` instead.
    resource: str = ""
    verbs: tuple[str, ...]
    #: Who needs it, and what for: `DefaultBinder: placing a pod`.
    purpose: str
    #: What does not happen without it. Empty: no pod can be scheduled at all, so it is required.
    without: str = ""
    #: Needed by some pods only. Whatever needs it then reports its lack, and nothing else does.
    on_demand: bool = False
    group: str = ""
    #: Empty: all namespaces, or a resource without.
    namespace: str = ""
    #: Empty: all objects.
    names: tuple[str, ...] = ()
    #: Paths that are not resources, such as `/debug/queue`.
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject what no rule can be made of.

        Raises:
            ValueError: `verbs` is no tuple or empty, or not one of `resource` and `urls` is given.
        """
        if not isinstance(cast("object", self.verbs), tuple) or not self.verbs:
            raise ValueError(f'Permission: verbs={self.verbs!r}: write a tuple, such as ("list",)')
        if bool(self.resource) == bool(self.urls):
            raise ValueError(f"Permission of {self.verbs}: give either `resource` or `urls`")

    @property
    def required(self) -> bool:
        """Whether no pod can be scheduled without it."""
        return not self.without

    @property
    def qualified(self) -> str:
        """Return the resource with its group: `poddisruptionbudgets.policy`, `pods/binding`."""
        if not self.resource:
            return ", ".join(self.urls)
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource
