"""The workloads of `workloads.yaml`: operations by upstream's names, in four sizes.

Source: `test/integration/scheduler_perf` of kubernetes/kubernetes, the files
`performance-config.yaml` in its subdirectories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from benchmarks.operations import Operation

Size = Mapping[str, int]
Operations = list[Operation]

SIZES: Final = ("smoke", "quick", "machine", "perf")

QUICK: Final = (
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "SchedulingPodAffinity",
    "SchedulingPodAntiAffinity",
    "SchedulingPreferredPodAffinity",
    "Unschedulable",
)
"""Workloads of `make bench-quick`."""

_PARAMETER: Final = re.compile(r"\$(\w+)")


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One workload, as written: operations may hold parameters such as `$nodes`."""

    exercises: str
    """What the measured part exercises, in one line."""
    sizes: dict[str, dict[str, int]]
    operations: list[dict[str, dict[str, Any]]]
    """Each a mapping with one key: the kind of the operation, and its fields."""
    controllers: tuple[str, ...] = ()
    """Controllers of kube-controller-manager that run beside it."""
    feature_gates: tuple[str, ...] = ()
    """Gates that are on in the API server and in the scheduler."""
    api_versions: tuple[str, ...] = ()
    """API versions that the API server serves in addition."""
    arguments: dict[str, dict[str, Any]] = {}
    """Arguments of plugins, by name, for both schedulers."""
    backlog: bool = True
    """Whether the window is one creation of pods and nothing else, so that the scheduler can be
    stopped meanwhile."""

    def plan(self, size: str, changes: Size | None = None) -> Operations:
        """Return the operations of a size; `changes` override its parameters.

        Raises:
            KeyError: the workload has no such size or parameter.
        """
        parameters = dict(self.sizes[size])
        for name, value in (changes or {}).items():
            if name not in parameters:
                raise KeyError(name)
            parameters[name] = value
        written = [_substitute(each, parameters) for each in self._repeated(parameters)]
        return msgspec.convert(written, Operations)

    def _repeated(self, parameters: Size) -> Iterator[dict[str, Any]]:
        """Yield every operation in msgspec's tagged form, those with `repeat` several times."""
        for operation in self.operations:
            ((kind, fields),) = operation.items()
            tagged = {"type": kind, **fields}
            repeat = _substitute(tagged.pop("repeat", 1), parameters)
            for index in range(repeat):
                yield _substitute(tagged, {"index": index})


def _substitute(value: Any, parameters: Size) -> Any:
    """Replace `$name` by its value wherever it is a parameter; a whole text becomes a number."""
    if isinstance(value, dict):
        return {key: _substitute(each, parameters) for key, each in value.items()}
    if isinstance(value, list):
        return [_substitute(each, parameters) for each in value]
    if not isinstance(value, str):
        return value
    whole = _PARAMETER.fullmatch(value)
    if whole is not None and whole[1] in parameters:
        return parameters[whole[1]]
    return _PARAMETER.sub(lambda name: str(parameters.get(name[1], name[0])), value)


WORKLOADS: Final[dict[str, Workload]] = msgspec.convert(
    yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()), dict[str, Workload]
)
