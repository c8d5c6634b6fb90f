"""Generator: workloads of random pods, by rate, mix, sizes and durations, with a daily rhythm.

Arrivals are a Poisson process, whose rate may follow the time of day. Everything that is random is
drawn from one seeded source, so that a seed names a workload.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.offline.trace import Arrival

DAY: Final = 86400.0
CPU_STEP: Final = 100
"""Millicores: drawn sizes are multiples of it, so that many pods share one template."""
MEMORY_STEP: Final = 128
"""MiB."""
MAX_ARRIVALS: Final = 5_000_000
"""Expected arrivals of one workload."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of positive numbers. Use the functions below to make one."""

    kind: str
    numbers: tuple[float, ...]
    weights: tuple[float, ...] = ()

    def sample(self, source: random.Random) -> float:
        """Draw a number."""
        match self.kind:
            case "choices":
                return source.choices(self.numbers, self.weights)[0]
            case "uniform":
                return source.uniform(*self.numbers)
            case "exponential":
                return source.expovariate(1.0 / self.numbers[0])
            case _:
                median, sigma, maximum = self.numbers
                return min(source.lognormvariate(math.log(median), sigma), maximum)


def choices(numbers: Mapping[float, float]) -> Distribution:
    """Return the distribution of given numbers, each with its weight.

    >>> choices({2.0: 1}).sample(random.Random(0))
    2.0

    Raises:
        ValueError: there is none, one is negative, or no weight is positive.
    """
    weights = tuple(numbers.values())
    _require(
        bool(numbers) and all(map(_valid, (*numbers, *weights))) and sum(weights) > 0,
        "choices: give numbers from 0 and their weights, one of which is positive",
    )
    return Distribution("choices", tuple(map(float, numbers)), tuple(map(float, weights)))


def constant(number: float) -> Distribution:
    """Return the distribution of one number. Raises ValueError if it is negative."""
    return choices({number: 1.0})


def uniform(low: float, high: float) -> Distribution:
    """Return the uniform distribution between two numbers. Raises ValueError."""
    _require(_valid(low) and _valid(high) and low <= high, "uniform: give 0 <= low <= high")
    return Distribution("uniform", (float(low), float(high)))


def exponential(mean: float) -> Distribution:
    """Return the exponential distribution. Raises ValueError unless the mean is positive."""
    _require(_valid(mean) and mean > 0, "exponential: give a positive mean")
    return Distribution("exponential", (float(mean),))


def lognormal(median: float, sigma: float, maximum: float = 1e9) -> Distribution:
    """Return the log-normal distribution, cut at a maximum: most are short, few very long.

    `sigma` is the standard deviation of the logarithm; 1 means that one in six is longer than 2.7
    medians. Raises ValueError.
    """
    _require(
        all(map(_valid, (median, sigma, maximum))) and median > 0 and sigma <= 10 and maximum > 0,
        "lognormal: give a positive median, sigma from 0 to 10 and a positive maximum",
    )
    return Distribution("lognormal", (float(median), float(sigma), float(maximum)))


@dataclass(frozen=True, slots=True)
class PodKind:
    """One kind of pods of a mix."""

    pod: Mapping[str, Any]
    """The manifest, see `builders.pod`."""
    weight: float = 1.0
    """Its part of all pods, relative to the weights of the others."""
    duration: Distribution | None = None
    """Seconds that each runs; None: to the end."""
    cpu: Distribution | None = None
    """CPUs that the first container requests, rounded up to 0.1; None: those of the manifest."""
    memory: Distribution | None = None
    """MiB that it requests, rounded up to 128; None: those of the manifest."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A random workload.

    >>> from kubestow import offline
    >>> jobs = PodKind(offline.pod("job"), duration=exponential(600.0))
    >>> arrivals = Generator(rate=0.1, until=3600.0, kinds=(jobs,)).arrivals(seed=1)
    >>> len(arrivals), arrivals[0].name
    (343, 'job-0')
    """

    rate: float
    """Pods a second, on average over a day."""
    until: float
    """The virtual second up to which pods arrive."""
    kinds: Sequence[PodKind]
    amplitude: float = 0.0
    """Of the daily rhythm: 0.5 means from half of the rate to one and a half of it."""
    peak: float = field(default=14 * 3600.0)
    """The second of the day at which most pods arrive; the world begins at second 0 of a day."""

    def __post_init__(self) -> None:
        _require(_valid(self.rate) and self.rate > 0, "rate: give a positive number")
        _require(_valid(self.until), "until: give a number from 0")
        _require(0 <= self.amplitude <= 1, "amplitude: give a number from 0 to 1")
        _require(_valid(self.peak), "peak: give a number from 0")
        weights = [each.weight for each in self.kinds]
        _require(
            all(map(_valid, weights)) and sum(weights) > 0,
            "kinds: give at least one, with weights from 0, one of which is positive",
        )
        _require(
            self.rate * self.until <= MAX_ARRIVALS,
            f"rate x until is {self.rate * self.until:g} pods; at most {MAX_ARRIVALS} are drawn",
        )

    def arrivals(self, seed: int) -> list[Arrival]:
        """Draw the workload of a seed, in order of arrival."""
        source = random.Random(seed)
        templates = _Templates()
        weights = [each.weight for each in self.kinds]
        found = []
        for number, time in enumerate(self._times(source)):
            kind = source.choices(self.kinds, weights)[0]
            template = templates.drawn(kind, source)
            duration = None if kind.duration is None else kind.duration.sample(source)
            name = f"{(template.get('metadata') or {}).get('name') or 'pod'}-{number}"
            found.append(Arrival(time, template, duration, name=name))
        return found

    def _times(self, source: random.Random) -> Iterator[float]:
        """Yield the times of a Poisson process, by thinning one of the highest rate."""
        highest = self.rate * (1.0 + self.amplitude)
        time = source.expovariate(highest)
        while time < self.until:
            rhythm = math.cos(2 * math.pi * (time - self.peak) / DAY)
            if source.random() * (1.0 + self.amplitude) < 1.0 + self.amplitude * rhythm:
                yield time
            time += source.expovariate(highest)


class _Templates:
    """The manifests of drawn sizes: one object for all pods of a kind and size."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], Mapping[str, Any]] = {}

    def drawn(self, kind: PodKind, source: random.Random) -> Mapping[str, Any]:
        """Draw a size of a kind and return its manifest."""
        if kind.cpu is None and kind.memory is None:
            return kind.pod
        cpu = 0 if kind.cpu is None else _stepped(kind.cpu.sample(source) * 1000, CPU_STEP)
        memory = 0 if kind.memory is None else _stepped(kind.memory.sample(source), MEMORY_STEP)
        key = id(kind), cpu, memory
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _sized(kind.pod, cpu, memory)
        return known


def _stepped(number: float, step: int) -> int:
    return max(1, math.ceil(number / step)) * step


def _sized(pod: Mapping[str, Any], cpu: int, memory: int) -> Mapping[str, Any]:
    """Return a manifest whose first container requests other amounts."""
    spec = pod.get("spec") or {}
    first, *rest = spec.get("containers") or [{"name": "main"}]
    resources = first.get("resources") or {}
    requests = dict(resources.get("requests") or {})
    limits = dict(resources.get("limits") or {})
    for name, amount in (("cpu", f"{cpu}m" if cpu else ""), ("memory", memory and f"{memory}Mi")):
        if amount:
            requests[name] = amount
            if name in limits:
                limits[name] = amount
    sized = {**first, "resources": {**resources, "requests": requests}}
    if limits:
        sized["resources"]["limits"] = limits
    return {**pod, "spec": {**spec, "containers": [sized, *rest]}}


def _valid(number: float) -> bool:
    return 0 <= number < math.inf


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(text)
