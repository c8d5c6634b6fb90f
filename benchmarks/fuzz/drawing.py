"""Chance, and the small alphabets that everything is drawn from so that things meet."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.fuzz.profiles import DEFAULT, GPU, HOSTNAME, ZONE

Object = dict[str, Any]

REGION: Final = "topology.kubernetes.io/region"
ZONES: Final = ("a", "b", "c")
APPS: Final = ("web", "db", "cache")
SPACES: Final = ("default", "default", "prod", "dev", "staging")
FPGA: Final = "other.org/fpga"
IGNORED: Final = "ignored.io/thing"
IMAGES: Final = (
    "registry.io/web:v1", "registry.io/db:v2", "registry.io/tool", "busybox",
    "docker.io/library/busybox:latest", f"registry.io/db@sha256:{'a' * 64}", "localhost:5000/x",
)  # fmt: skip

ASPECTS: Final = (
    "spread", "interpod", "volumes", "taints", "nodeaffinity", "resources", "images", "ports",
    "preemption", "features",
)  # fmt: skip
_CROWDED: Final = ("preemption", "nominated")
_WITH_PREEMPTION: Final = {"preemption": 0.85, "interpod": 0.25, "spread": 0.25, "volumes": 0.15}
PROFILES_OF: Final[Mapping[str, Sequence[str]]] = {
    "spread": (DEFAULT, DEFAULT, "listed"),
    "interpod": (DEFAULT, "symmetric", "ignoring"),
    "nodeaffinity": (DEFAULT, "added"),
    "resources": (DEFAULT, "most", "least", "ratio", "balanced"),
    "extremes": (DEFAULT, "most", "least", "ratio", "balanced"),
    "taints": (DEFAULT, "weighted"),
    "ports": (DEFAULT, DEFAULT, "weighted"),
    "mixed": (
        DEFAULT, "most", "least", "ratio", "balanced", "added", "symmetric", "ignoring", "listed",
        "weighted",
    ),
}  # fmt: skip


class Draw:
    """A seeded source that knows which aspects a family dwells on."""

    def __init__(self, seed: int, family: str) -> None:
        self.family = family
        self._random = random.Random(f"{family} {seed}")

    def about(self, aspect: str) -> float:
        """Return the weight of this aspect in the world, from 0 to 1."""
        if self.family == "changing" and aspect in ("ports", "images"):
            return 0.0  # kube-scheduler's account of both depends on history (docs/differences.md)
        if self.family in ("mixed", "changing"):
            return 0.3
        if self.family == "extremes":
            return {"resources": 0.6, "preemption": 0.2}.get(aspect, 0.0)
        if self.family in _CROWDED:
            return _WITH_PREEMPTION.get(aspect, 0.04)
        return 0.85 if aspect == self.family else 0.04

    def dwells(self, aspect: str) -> bool:
        """Whether one object shall have to do with an aspect."""
        return self.chance(self.about(aspect))

    @property
    def crowded(self) -> bool:
        """Whether there shall be little room."""
        return self.family in _CROWDED

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def one(self, *choices: Any) -> Any:
        """One of these."""
        return self._random.choice(choices)

    def some(self, choices: Sequence[Any], most: int | None = None, least: int = 0) -> list[Any]:
        """A few of these, each once."""
        most = len(choices) if most is None else min(most, len(choices))
        return self._random.sample(list(choices), self._random.randint(min(least, most), most))

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return self._random.randint(low, high)

    def space(self) -> str:
        """A namespace; claims and their users must meet in one."""
        return "default" if self.chance(self.about("volumes")) else str(self.one(*SPACES))

    def labels(self) -> dict[str, str]:
        """A pod's labels."""
        found = {}
        if self.chance(0.9):
            found["app"] = self.one(*APPS)
        if self.chance(0.5):
            found["tier"] = self.one("front", "back")
        if self.chance(0.4):
            found["version"] = self.one("1", "2", "")
        return found

    def selector(self) -> Object | None:
        """A label selector; at times an empty one, at times none."""
        kind = self.number(0, 19)
        if kind == 0:
            return {}
        if kind == 1:
            return None
        if kind < 12:
            return {"matchLabels": {"app": self.one(*APPS)}}
        expressions = [
            self.expression(
                *self.one(("app", APPS), ("tier", ("front", "back")), ("version", "12"))
            )
            for _ in range(self.number(1, 2))
        ]
        found: Object = {"matchExpressions": expressions}
        if self.chance(0.2):
            found["matchLabels"] = {"tier": self.one("front", "back")}
        return found

    def expression(self, key: str, values: Sequence[str]) -> Object:
        """A requirement of a label selector."""
        operator = self.one("In", "In", "NotIn", "Exists", "DoesNotExist")
        found: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = self.some(list(values), 2, 1)
        return found

    def topology(self) -> str:
        """A topology key, at times one that few nodes have."""
        return str(self.one(ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, REGION, "rack"))

    def amounts(self, rich: bool) -> dict[str, str]:
        """Requests of a container."""
        found: dict[str, str] = {}
        if self.family == "extremes" and self.chance(0.3):
            # Above 2^53 the usage of a node differs on purpose (docs/differences.md).
            return {
                "cpu": self.one("1n", "999u", "1e9", "1e12", "500000000"),
                "memory": self.one("1n", "500m", "1e3", "1Pi", "700T", "1Ti"),
            }
        if self.chance(0.8):
            found["cpu"] = self.one(
                "0", "1m", "100m", "250m", "0.5", "1", "1500m", "2", "3", "333m", "0.0001"
            )
        if self.chance(0.8):
            found["memory"] = self.one(
                "0",
                "1",
                "64Mi",
                "128M",
                "200Mi",
                "512Mi",
                "1Gi",
                "1500M",
                "2Gi",
                "3.5Gi",
                "1e9",
                "0.5",
            )
        if rich and self.chance(0.4):
            found["ephemeral-storage"] = self.one("0", "1Gi", "5Gi", "30Gi")
        if rich and self.chance(0.4):
            found[self.one(GPU, GPU, FPGA, IGNORED, "unknown.org/x")] = self.one("0", "1", "2", "5")
        if rich and self.chance(0.15):
            found["hugepages-2Mi"] = self.one("2Mi", "64Mi")
            found.setdefault("memory", "64Mi")
            found.setdefault("cpu", "10m")
        return found
