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
    """No response to a request, or a failure within the API server: it may have been executed.

    Read the object to find out. A delayed request may still be executed later, unless it names a
    resourceVersion that has passed.
    """


class ObjectKey(NamedTuple):
    """An object to wait for; `namespace` is empty for cluster-scoped kinds."""

    plural: str
    namespace: str
    name: str


class ApiWriter(Protocol):
    """Writes to the API server, and waits for their effects; plugins have no other way."""

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        """Bind; return when the outcome is certain, however long that takes.

        The API server copies `annotations` of the Binding into the pod, in the same write.

        Returns:
            None if the pod is bound to `node_name`, an Error status if it certainly is not.
        """
        ...

    async def get(self, plural: str, name: str, namespace: str) -> Any | None:
        """Return the newest state of an object, which the watch may not show yet; None: not found.

        `namespace` is empty for cluster-scoped kinds. Errors as `patch`.
        """
        ...

    async def list(self, plural: str, namespace: str, *, field_selector: str, limit: int) -> Any:
        """Return at most `limit` objects of a namespace that the field selector matches.

        For objects that no watch shows, such as pods that have ended. Errors as `patch`.
        """
        ...

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        """Create an object, without apiVersion and kind in `body`; return it as it was stored.

        Errors as `patch`. After an unknown outcome an object with `generateName` may exist under a
        name that nobody knows: look for it by something else.
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

        `namespace` is empty for cluster-scoped kinds. KeyError for a plural that is not known. With
        `metadata.resourceVersion` in `body` any change since then is a conflict. There is no
        update: objects here have only the fields that scheduling reads.

        Raises:
            WriteConflictError: the object has changed or is gone.
            OutcomeUnknownError: it may have been applied.
            Exception: the client's errors, such as other rejections and lost leadership.
        """
        ...

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete an object; with `uid` only that one, not a successor of the same name.

        Errors as `patch`.
        """
        ...

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Wait until `look` returns no objects.

        `look` reads the listers and returns the objects to wait for; their plurals must be watched
        (`required_resources`). It is called at once and after every change of one of them, and may
        raise to end the wait. A pod that waits here does not occupy a binding slot.

        Returns:
            True if `look` returned no objects; False if `seconds` passed first.
        """
        ...

    async def status_written(self, uids: Iterable[str]) -> None:
        """Wait until no write to the status of these pods is in flight.

        The writes may have failed. A pod that waits here does not occupy a request slot.
        """
        ...

    async def evict(
        self, pods: Sequence[Pod], condition: Condition
    ) -> Sequence[bool | BaseException]:
        """Put `condition` on each pod, then delete it (only this UID); all pods side by side.

        Returns one result per pod: True if the API server accepted the deletion, False if the pod
        no longer existed, or the error. A pod that has the condition is deleted without a patch.
        """
        ...
