"""The condition of a pod as the API server has it, where the scheduler does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from scheduler.cli.pod_format import at, one_line

if TYPE_CHECKING:
    from scheduler.cli.endpoint import Endpoint

CONDITION: Final = "PodScheduled"
MAX_MESSAGE: Final = 1_000
TEXT: Final = """
The pod itself says, in its condition PodScheduled{since}:
  {message}"""


def stored_condition(endpoint: Endpoint, pod: str) -> str:
    """Return why `pod`, `namespace/name`, waits as the API server has it.

    Empty if the user may not get it, or if it does not wait.
    """
    namespace, _, name = pod.partition("/")
    target = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    status, found = endpoint.cluster_object(target)
    conditions = at(found, "status.conditions") if status == 200 else None
    for each in conditions if isinstance(conditions, list) else ():
        message = at(each, "message")
        if at(each, "type") == CONDITION and at(each, "status") == "False" and message:
            since = at(each, "lastTransitionTime")
            return TEXT.format(
                since=f" since {one_line(str(since))[:40]}" if since else "",
                message=one_line(str(message))[:MAX_MESSAGE],
            )
    return ""
