"""Workloads from files: traces of our own format, openb pod lists, and generators in YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.api.pod_templates import NoPodError, pod_of
from scheduler.offline import generator, openb
from scheduler.offline.dump_files import content
from scheduler.offline.editing import WorldError
from scheduler.offline.generator import Distribution, Generator, PodKind
from scheduler.offline.rows import seconds
from scheduler.offline.trace import Arrival, read_csv
from scheduler.sanitizing.yaml_limits import Loader, check_limits, located

MAX_BYTES: Final = 16 << 20
"""Of a generator, or of a file with templates."""

Templates = Mapping[str, Mapping[str, Any]]
Workload = Callable[[int], Sequence[Arrival]]
"""Returns the arrivals of a seed."""

MAX_KINDS: Final = 1000
"""Kinds of pods of one generator."""

_GENERATOR: Final = ("rate", "until", "amplitude", "peak", "pods")
_KIND: Final = ("template", "weight", "duration", "cpu", "memory")


def read_workload(path: str | Path, templates: Templates) -> Workload:
    """Read a workload; the kind is told by the file.

    - `.yaml`, `.yml`: a generator, which draws other arrivals for each seed.
    - `.jsonl`, and CSV with the columns of `read_csv`.
    - CSV with the columns of an openb pod list: pods at the times of the trace; without times in
      a random order of the seed, one a second.

    Raises:
        WorldError: every fault of the file.
    """
    path = Path(path)
    if path.suffix in (".yaml", ".yml"):
        return _generator(path, templates).arrivals
    if ".jsonl" not in path.suffixes and openb.is_pod_list(path):
        return _of_pod_list(openb.read_pods(path))
    arrivals = read_csv(path, templates)
    return lambda _seed: arrivals


def _of_pod_list(pods: Sequence[openb.TracePod]) -> Workload:
    if all(each.creation_time is not None for each in pods):
        arrivals = openb.as_recorded(pods)
        return lambda _seed: arrivals

    def drawn(seed: int) -> Sequence[Arrival]:
        return openb.in_order(pods, openb.Order(openb.shuffled(len(pods), seed), ()))

    return drawn


def read_templates(paths: Sequence[str | Path]) -> dict[str, Mapping[str, Any]]:
    """Read pods, or the templates of controllers, from manifests; return them by name.

    Raises:
        WorldError: a file cannot be read, an object is no pod, or a name is there twice.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        for document in _documents(Path(path)):
            pod = _template(path, document)
            name = pod["metadata"]["name"]
            if name in found:
                raise WorldError(f"{path}: there is another template {name!r:.80}")
            found[name] = pod
    return found


def _template(path: str | Path, document: Any) -> Mapping[str, Any]:
    try:
        pod = pod_of(document).pod
    except NoPodError as error:
        raise WorldError(f"{path}: an object {error}") from error
    if not isinstance(pod["metadata"].get("name"), str):
        raise WorldError(f"{path}: an object is no pod with metadata.name and spec")
    pod["metadata"].setdefault("namespace", "default")
    return pod


def _documents(path: Path) -> list[Any]:
    data = content(path, MAX_BYTES)
    try:
        check_limits(data)
        return [each for each in yaml.load_all(data, Loader=Loader) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line, problem = located(error)
        where = f"{path}:{line}" if line else str(path)
        raise WorldError(f"{where}: neither YAML nor JSON: {problem}") from error


class _Reader:
    """Reads the fields of a generator, and notes every fault with its place."""

    def __init__(self, path: Path, templates: Templates) -> None:
        self._path, self._templates = path, templates
        self.faults: list[str] = []

    def fault(self, place: str, text: str) -> None:
        self.faults.append(f"{self._path}: {place}: {text}")

    def fields(self, place: str, value: Any, known: Sequence[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.fault(place, f"give a mapping with {', '.join(known)}")
            return {}
        for name in value:
            if name not in known:
                self.fault(f"{place}.{str(name)[:60]}", f"unknown; known are {', '.join(known)}")
        return value

    def number(self, place: str, value: Any, *, time: bool = False) -> float:
        try:
            return seconds(str(value)) if time else _plain(value)
        except ValueError as error:
            self.fault(place, f"{value!r:.60}: {error}")
            return 1.0

    def distribution(self, place: str, value: Any, *, time: bool = False) -> Distribution | None:
        """Read a number, or a mapping of one kind of distribution to its numbers."""
        if value is None:
            return None
        try:
            if not isinstance(value, dict):
                return generator.constant(self.number(place, value, time=time))
            if len(value) == 1:
                ((kind, given),) = value.items()
                return self._drawn(f"{place}.{kind}", str(kind), given, time=time)
        except ValueError as error:
            self.fault(place, str(error))
            return None
        self.fault(place, "give a number, or one of choices, uniform, exponential and lognormal")
        return None

    def _drawn(self, place: str, kind: str, given: Any, *, time: bool) -> Distribution:
        match kind, given:
            case "choices", dict():
                return generator.choices(
                    {
                        self.number(place, each, time=time): self.number(place, weight)
                        for each, weight in given.items()
                    }
                )
            case "uniform", [low, high]:
                ends = (self.number(place, each, time=time) for each in (low, high))
                return generator.uniform(*ends)
            case "exponential", int() | float() | str():
                return generator.exponential(self.number(place, given, time=time))
            case "lognormal", {"median": median, "sigma": sigma, **rest} if rest.keys() <= {
                "maximum"
            }:
                numbers = [
                    self.number(place, median, time=time),
                    self.number(place, sigma),
                    *(self.number(place, each, time=time) for each in rest.values()),
                ]
                return generator.lognormal(*numbers)
        raise ValueError(
            "give a number, {choices: {NUMBER: WEIGHT, …}}, {uniform: [LOW, HIGH]}, "
            "{exponential: MEAN} or {lognormal: {median: …, sigma: …, maximum: …}}"
        )

    def kind(self, place: str, value: Any) -> PodKind:
        given = self.fields(place, value, _KIND)
        name = given.get("template")
        if not isinstance(name, str) or name not in self._templates:
            known = ", ".join(sorted(self._templates)) or "none"
            why = "missing" if name is None else f"{name!r:.80} is unknown"
            self.fault(f"{place}.template", f"{why}; known are {known:.400}")
            name = ""
        return PodKind(
            self._templates.get(name, {}),
            self.number(f"{place}.weight", given.get("weight", 1)),
            self.distribution(f"{place}.duration", given.get("duration"), time=True),
            self.distribution(f"{place}.cpu", given.get("cpu")),
            self.distribution(f"{place}.memory", given.get("memory")),
        )


def _plain(value: object) -> float:
    number = -1.0
    with suppress(ValueError):
        number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError("give a number from 0")
    return number


def _generator(path: Path, templates: Templates) -> Generator:
    documents = _documents(path)
    reader = _Reader(path, templates)
    given = reader.fields("generator", documents[0] if len(documents) == 1 else None, _GENERATOR)
    pods = given.get("pods")
    if not isinstance(pods, list):
        reader.fault("pods", "give a list of mappings with " + ", ".join(_KIND))
        pods = []
    if len(pods) > MAX_KINDS:
        reader.fault("pods", f"{len(pods)} kinds of pods; give at most {MAX_KINDS}")
        pods = []
    kinds = tuple(reader.kind(f"pods[{index}]", each) for index, each in enumerate(pods))
    rate = reader.number("rate", given.get("rate"))
    until = reader.number("until", given.get("until"), time=True)
    amplitude = reader.number("amplitude", given.get("amplitude", 0))
    peak = reader.number("peak", given.get("peak", "14h"), time=True)
    if not reader.faults:
        try:
            return Generator(rate, until, kinds, amplitude, peak)
        except ValueError as error:
            reader.fault("generator", str(error))
    raise WorldError("\n".join(reader.faults))
