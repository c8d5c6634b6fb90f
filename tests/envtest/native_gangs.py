"""A control plane that serves PodGroups of `scheduling.k8s.io`, and objects of such groups."""

from __future__ import annotations

from typing import Any, Final, cast

from devtools.control_plane.control_plane import ApiServerOptions
from tests.envtest.workload import Workload

GATES: Final = {
    "GenericWorkload": True,
    "TopologyAwareWorkloadScheduling": True,
    "WorkloadWithJob": True,
}
SERVED: Final = {"scheduling.k8s.io/v1beta1": True}
OPTIONS: Final = ApiServerOptions(feature_gates=GATES, runtime_config=SERVED)
API: Final = "/apis/scheduling.k8s.io/v1beta1"


def groups_path(work: Workload) -> str:
    """Return the path of the PodGroups of a workload."""
    return f"{API}/namespaces/{work.namespace}/podgroups"


def add_group(work: Workload, name: str, minimum: int, **spec: Any) -> None:
    """Create a gang; a minimum of 0 makes a basic group."""
    policy: dict[str, Any] = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    work.control_plane.admin.request("POST", groups_path(work), body)


def groups_of(work: Workload) -> list[dict[str, Any]]:
    """Return the PodGroups of a workload."""
    found = work.control_plane.admin.request("GET", groups_path(work))
    return cast("list[dict[str, Any]]", found["items"])


def add_members(work: Workload, group: str, count: int, *, cpu: str = "1", stem: str = "") -> None:
    """Create pods of a group."""
    for number in range(count):
        work.pod(f"{stem or group}-{number}", cpu=cpu, schedulingGroup={"podGroupName": group})


def add_job(work: Workload, name: str, parallelism: int, *, cpu: str = "1") -> None:
    """Create an Indexed Job, for which the Job controller makes a Workload and a PodGroup."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "completionMode": "Indexed",
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {
                "spec": {
                    "schedulerName": work.scheduler_name,
                    "restartPolicy": "Never",
                    "containers": [container],
                }
            },
        },
    }
    work.control_plane.admin.request(
        "POST", f"/apis/batch/v1/namespaces/{work.namespace}/jobs", body
    )
