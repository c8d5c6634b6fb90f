"""Plan: the file of `kubestow simulate --sweep`, read into runs, and the function that runs one.

    dumps: [cluster.json]
    policies: {spread: spread.yaml, pack: pack.yaml}   # null: the default configuration
    seeds: 0-9
    workloads: {monday: {file: monday.csv, templates: [web.yaml]}}
    until: 86400
    pluginDirs: [plugins]

Every policy is run with every workload and every seed. Paths are relative to the file. Workloads
and templates are the files of `kubestow simulate --workload` and `--template`. Without workloads
the pods that wait are scheduled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler.files import read_file, reason
from scheduler.offline import WorldError
from scheduler.offline.experiment import Scenario, Simulation, seeds_of
from scheduler.offline.workload_files import read_templates, read_workload
from scheduler.recording.format import BundleError
from scheduler.sanitizing.yaml_limits import Loader, check_limits
from simulator.sweeps.runs import SweepError, SweepRun, digest, listed

MAX_BYTES: Final = 1 << 20
MAX_RUNS: Final = 100_000


class _Workload(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    templates: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    dumps: list[str]
    policies: dict[str, str | None]
    seeds: int | str | list[int] = 0
    workloads: dict[str, _Workload] = {}
    until: float | None = None
    plugin_dirs: list[str] = []
    adopt: bool | None = None


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a sweep file, and the version of everything that they read."""

    runs: tuple[SweepRun, ...]
    version: str
    notes: tuple[str, ...]
    """What is missing in the dumps, and what was filled in for objects of dumps and templates."""


def read_plan(path: str | Path, seeds: Sequence[int] | None = None) -> SweepPlan:
    """Read a sweep file; `seeds` take the place of those that it names.

    Raises:
        SweepError: it cannot be read or is malformed, a file that it names does not exist, or a
            dump or workload is malformed: every fault, of very many the first.
    """
    where = Path(path)
    try:
        text = read_file(where, MAX_BYTES)
        check_limits(text)
        found = msgspec.convert(yaml.load(text, Loader=Loader), _File)  # noqa: S506 - with limits
        seeds = _seeds(found.seeds) if seeds is None else seeds
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise SweepError(f"{where}: {reason(error)}") from error
    if not found.dumps or not found.policies:
        raise SweepError(f"{where}: give at least one of `dumps`, and one of `policies`")
    count = len(found.policies) * len(seeds) * max(1, len(found.workloads))
    if count > MAX_RUNS:
        raise SweepError(f"{where}: {count} runs; at most {MAX_RUNS} are possible")
    files = list(dict.fromkeys(where.parent / each for each in _paths(found)))
    missing = [f"{each}: no such file or folder" for each in files if not each.exists()]
    if missing:
        raise SweepError(listed(missing))
    notes = _check_input(where.parent, found)
    return SweepPlan(tuple(_runs(where.parent, found, seeds)), digest(*files), notes)


def _check_input(folder: Path, found: _File) -> tuple[str, ...]:
    """Read dumps and workloads once, before the first of many runs; return what is to be said.

    Raises:
        SweepError: with the faults of all of them.
    """
    faults: list[str] = []
    templates: list[Mapping[str, Any]] = []
    for each in found.workloads.values():
        try:
            own = read_templates([folder / template for template in each.templates])
            templates += (new for new in own.values() if new not in templates)
            read_workload(folder / each.file, own)
        except WorldError as error:
            faults += str(error).splitlines()
    notes: tuple[str, ...] = ()
    try:
        scenario = Scenario(tuple(str(folder / each) for each in found.dumps), adopt=True)
        with Simulation(scenario).world() as world:
            for template in templates:
                world._decoded(template)
            notes = tuple(filter(None, (*world.notes, world.filled)))
    except (WorldError, BundleError, RecursionError) as error:
        faults += str(error).splitlines()
    if faults:
        raise SweepError(listed(faults))
    return notes


def _seeds(given: int | str | list[int]) -> Sequence[int]:
    if isinstance(given, str):
        try:
            return seeds_of(given)
        except ValueError as error:
            raise ValueError(f"`$.seeds` is {error}") from error
    return list(dict.fromkeys(given if isinstance(given, list) else [given]))


def _paths(found: _File) -> Iterator[str]:
    yield from found.dumps
    yield from (each for each in found.policies.values() if each)
    yield from found.plugin_dirs
    for workload in found.workloads.values():
        yield workload.file
        yield from workload.templates


def _runs(folder: Path, found: _File, seeds: Sequence[int]) -> Iterator[SweepRun]:
    def path(name: str) -> str:
        return str(folder / name)

    workloads: list[tuple[str, _Workload | None]] = [*found.workloads.items()] or [("", None)]
    for (policy, config), (name, workload), seed in product(
        found.policies.items(), workloads, seeds
    ):
        parameters: dict[str, Any] = {
            "dumps": [path(each) for each in found.dumps],
            "policy": policy,
            "config": path(config) if config else None,
            "pluginDirs": [path(each) for each in found.plugin_dirs],
            "adopt": not config if found.adopt is None else found.adopt,
            "seed": seed,
            "until": found.until,
            "workload": name,
        }
        if workload is not None:
            templates = [path(each) for each in workload.templates]
            parameters |= {"file": path(workload.file), "templates": templates}
        yield SweepRun("-".join(filter(None, (policy, name, str(seed)))), parameters)


def simulated(parameters: Mapping[str, Any]) -> dict[str, float]:
    """Run one policy with one workload and one seed; return its figures (docs/simulate.md).

    Raises:
        WorldError: a dump or a workload is malformed.
        ConfigurationError: the configuration is malformed.
        RuntimeError: a plugin raised.
    """
    workload = None
    if "file" in parameters:
        workload = read_workload(parameters["file"], read_templates(parameters["templates"]))
    scenario = Scenario(
        tuple(parameters["dumps"]),
        plugin_dirs=tuple(parameters["pluginDirs"]),
        adopt=parameters["adopt"],
        workload=workload,
        until=parameters["until"],
    )
    run = Simulation(scenario).run(parameters["policy"], parameters["config"], parameters["seed"])
    if run.error:
        raise RuntimeError(run.error)
    return dict(run.figures)
