"""The profiles that kube-scheduler runs with: one process, many schedulers' names."""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]
DEFAULT: Final = "default-scheduler"
GPU: Final = "example.com/gpu"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

HEAD: Final[Object] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def _weighed(**weights: int) -> list[Object]:
    names = {"gpu": GPU, "disk": "ephemeral-storage"}
    return [{"name": names.get(name, name), "weight": each} for name, each in weights.items()]


def _fit(strategy: str, **more: Any) -> Object:
    return {"scoringStrategy": {"type": strategy, **more}}


_SHAPE: Final = [
    {"utilization": 0, "score": 2},
    {"utilization": 45, "score": 10},
    {"utilization": 100, "score": 1},
]

_ARGUMENTS: Final[dict[str, dict[str, Object]]] = {
    DEFAULT: {},
    "most": {"NodeResourcesFit": _fit("MostAllocated", resources=_weighed(cpu=1, memory=2, gpu=5))},
    "least": {"NodeResourcesFit": _fit("LeastAllocated", resources=_weighed(cpu=3, gpu=7, disk=2))},
    "ratio": {
        "NodeResourcesFit": _fit(
            "RequestedToCapacityRatio",
            resources=_weighed(cpu=3, memory=1, gpu=4),
            requestedToCapacityRatio={"shape": _SHAPE},
        )
    },
    "balanced": {
        "NodeResourcesBalancedAllocation": {"resources": _weighed(cpu=1, gpu=1, disk=1, memory=1)},
        "NodeResourcesFit": {
            "ignoredResources": ["other.org/fpga"], "ignoredResourceGroups": ["ignored.io"],
        },
    },
    "added": {
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["ssd", "hdd"]}
                            ]
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 33,
                        "preference": {
                            "matchExpressions": [
                                {"key": ZONE, "operator": "In", "values": ["a", "b"]}
                            ]
                        },
                    }
                ],
            }
        }
    },
    "symmetric": {"InterPodAffinity": {"hardPodAffinityWeight": 77}},
    "ignoring": {
        "InterPodAffinity": {
            "hardPodAffinityWeight": 10, "ignorePreferredTermsOfExistingPods": True,
        }
    },
    "listed": {
        "PodTopologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        }
    },
}  # fmt: skip
"""Plugin arguments by scheduler name."""


def profiles() -> list[Object]:
    """Every profile, as kube-scheduler's configuration has it."""
    found: list[Object] = [
        {
            "schedulerName": name,
            "pluginConfig": [
                {"name": plugin, "args": arguments} for plugin, arguments in configured.items()
            ],
        }
        for name, configured in _ARGUMENTS.items()
    ]
    found.append(
        {
            "schedulerName": "weighted",
            "plugins": {
                "score": {
                    "disabled": [{"name": "ImageLocality"}, {"name": "TaintToleration"}],
                    "enabled": [{"name": "TaintToleration", "weight": 11}],
                },
                "filter": {"disabled": [{"name": "NodeUnschedulable"}]},
                "postFilter": {"disabled": [{"name": "*"}]},
            },
        }
    )
    return found


def for_kubestow(every: list[Object]) -> Object:
    """The same profiles for kubestow, which does not take kube-scheduler's name."""
    return {"profiles": [_renamed(each) for each in every]}


def own_name(name: str) -> str:
    """Return the scheduler name of a profile in kubestow's configuration."""
    return f"own-{name}"


def _renamed(profile: Object) -> Object:
    configured = [dict(each) for each in profile.get("pluginConfig", ())]
    preemption = next((each for each in configured if each["name"] == "DefaultPreemption"), None)
    if preemption is None:
        preemption = {"name": "DefaultPreemption"}
        configured.append(preemption)
    preemption["args"] = {**preemption.get("args", {}), "victimSchedulers": "All"}
    name = own_name(profile["schedulerName"])
    return {**profile, "schedulerName": name, "pluginConfig": configured}


def only(every: list[Object], name: str) -> Object:
    """A configuration with this one profile."""
    return {**HEAD, "profiles": [each for each in every if each["schedulerName"] == name]}
