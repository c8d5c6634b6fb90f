"""ApiWriter: how plugins write to the API server, and how their writes fail.

Upstream plugins use client-go. Here the host sends every write, so that none passes while another
replica leads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework.status import Status


class WriteConflictError(Exception):
    """The API server refused a write because the object has changed, or is gone, or exists already.

    Nothing was written. Read the object again, and decide again.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        #: 409, or 404 for an object that is gone.
        self.status = status


class OutcomeUnknownError(Exception):
    """A request got no response, or a server error: it may or may not have been executed.

    Read the object to find out. The API server may still execute a delayed request later, unless
    the request carries an outdated resourceVersion.
    """


class ObjectKey(NamedTuple):
    """An object to wait for; `namespace` is empty for cluster-scoped kinds."""

    plural: str
    namespace: str
    name: str


class ApiWriter(Protocol):
    """Reads and writes of plugins at the API server; plugins must not write in any other way."""

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        """Bind `pod`; return once the outcome is certain, however long that takes.

        The API server copies `annotations` from the Binding to the pod in the same write.

        Returns:
            None if the pod is bound to `node_name`, an Error status if it certainly is not.
        """
        ...

    async def get(self, plural: str, name: str, namespace: str) -> Any | None:
        """Read an object from the API server, which may be ahead of the watch; None: not found.

        `namespace` is empty for cluster-scoped kinds. Raises the same errors as `patch`.
        """
        ...

    async def list(self, plural: str, namespace: str, *, field_selector: str, limit: int) -> Any:
        """Return at most `limit` objects of a namespace that match the field selector.

        Meant for objects that are not watched, such as finished pods. Raises the same errors as
        `patch`.
        """
        ...

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        """Create an object; return it as the API server stored it.

        `body` has neither apiVersion nor kind. Raises the same errors as `patch`. After an unknown
        outcome an object with `generateName` may exist under a name that the caller never learnt:
        search for it by another field.
        """
        ...

    async def patch(
        self,
        plural: str,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        strategic: bool = False,
    ) -> Any:
        """Send a JSON merge patch, or a strategic one; return the object in the response.

        `namespace` is empty for cluster-scoped kinds. With `metadata.resourceVersion` in `body`,
        any change of the object since that version is a conflict. There is no `update` (PUT),
        because decoded objects have only the fields that scheduling reads.

        Raises:
            KeyError: `plural` is unknown.
            WriteConflictError: the object has changed or is gone.
            OutcomeUnknownError: the patch may have been applied.
            Exception: errors of the client, such as other rejections and lost leadership.
        """
        ...

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete an object; if `uid` is given, only the object with that UID.

        Raises the same errors as `patch`.
        """
        ...

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Wait until `look` returns no objects.

        `look` reads the listers and returns the objects to wait for; their plurals must be watched
        (`required_resources`). `wait_for` calls it at once and after every change of one of these
        objects; an exception that it raises ends the wait and reaches the caller. A pod that waits
        here does not occupy a binding slot.

        Returns:
            True if `look` returned no objects; False if `seconds` passed first.
        """
        ...

    async def status_written(self, uids: Iterable[str]) -> None:
        """Wait until no write to the status of these pods is in flight.

        These writes may have failed. A pod that waits here does not occupy a request slot.
        """
        ...

    async def evict(
        self,
        pods: Sequence[Pod],
        condition: Condition,
        needed: Callable[[], bool] = lambda: True,
    ) -> Sequence[bool | BaseException]:
        """Add `condition` to each pod, then delete the pod by UID; all pods concurrently.

        `needed` is called right before each of these requests, which may have waited; if it returns
        False, the pod stays, and a condition that was added becomes False.

        Returns one result per pod: True if the API server accepted the deletion, False if the pod
        stays or no longer existed, or the error. A pod that already has the condition is not
        patched.
        """
        ...
