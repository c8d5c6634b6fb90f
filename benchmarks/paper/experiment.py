"""One experiment: a trace, a policy and a seed, in an offline world with the example's plugins.

Each pod arrives when the one before it has been decided about, is tried once, and disappears if no
node fits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.paper import measures, traces
from scheduler import offline
from scheduler.offline import openb

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "gpu_sharing"
INDEX: Final = "alibabacloud.com/gpu-index"
POLICIES: Final = {
    "Random": "random",
    "DotProd": "dot-prod",
    "GpuClustering": "gpu-clustering",
    "GpuPacking": "gpu-packing",
    "BestFit": "best-fit",
    "FGD": "fgd",
}
"""The policies of the paper, and the configurations of the example."""
OTHERS: Final = {
    "FGD+BestFit": "fgd-best-fit",
    **{f"{name}/random-ties": file for name, file in POLICIES.items() if name != "Random"},
}
"""Further ones: the recommended configuration, and ties as a stock kube-scheduler breaks them."""
SCALED: Final = ("BestFit", "DotProd", "GpuClustering", "GpuPacking")
"""Plugins of the example that have the size of the largest node as arguments."""
PLUGINS: Final = ("PrioritySort", "NodeResourcesFit", "NodeAffinity", "DefaultBinder")
"""The default plugins that matter to these pods, which state nothing that another one reads."""
LARGEST: Final = (128_000, 8)
"""Millicores and GPUs of the largest node of the paper, by which its policies scale scores."""
PATIENCE: Final = 0.5
"""Seconds: less than the first backoff, and less than the second between two arrivals."""


def configuration(
    policy: str, typical: list[dict[str, object]], nodes: Sequence[openb.TraceNode] = ()
) -> dict[str, Any]:
    """Return the configuration of a policy, with the typical pods and the largest node of a trace.

    Nodes smaller than the paper's largest one change nothing.
    """
    file = EXAMPLE / f"{ {**POLICIES, **OTHERS}[policy] }.yaml"
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    profile = found["profiles"][0]
    if policy in OTHERS:
        profile.pop("kubestow", None)
    profile["plugins"]["multiPoint"]["disabled"] = [{"name": "*"}]
    profile["plugins"]["multiPoint"]["enabled"] += [{"name": each} for each in PLUGINS]
    for each in profile.get("pluginConfig", ()):
        if "typicalPods" in each["args"]:
            each["args"]["typicalPods"] = typical
    cpu = max((LARGEST[0], *(each.cpu_milli for each in nodes)))
    gpus = max((LARGEST[1], *(each.gpus for each in nodes)))
    if (cpu, gpus) != LARGEST:
        profile.setdefault("pluginConfig", []).extend(
            {"name": f"example.com/{name}", "args": {"maxCpu": cpu, "maxGpus": gpus}}
            for each in profile["plugins"]["score"].get("enabled", ())
            if (name := each["name"].rpartition(":")[2]) in SCALED
        )
    found["kubestow"] = {"decisionHistory": {"pods": 0}}
    return found


@lru_cache(maxsize=1)
def _trace(folder: Path, name: str, _digest: str) -> traces.Trace:
    """Read a trace once for the runs of a process, which come trace by trace."""
    return traces.read(traces.files(folder)[0][name])


def run(parameters: Mapping[str, Any]) -> dict[str, list[float]]:
    """Run `policy` on `trace` of `folder` with `seed`; return the curves."""
    trace = _trace(Path(parameters["folder"]), parameters["trace"], parameters.get("input", ""))
    order = trace.orders[parameters["seed"]]
    given = configuration(parameters["policy"], traces.typical_pods(trace.pods), trace.nodes)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump(given), encoding="utf-8")
        world = offline.World(config=config, plugin_dirs=[EXAMPLE], seed=parameters["seed"])
    with world:
        log = play(world, trace, order)
    return measures.curves(trace, order.arrivals, log)


def play(world: offline.World, trace: traces.Trace, order: openb.Order) -> measures.Log:
    """Let the pods arrive; return where each went."""
    digits = max(4, len(str(len(trace.nodes) - 1)))
    numbers = {
        world.add(openb.node(each, rank, digits=digits)): number
        for number, (each, rank) in enumerate(zip(trace.nodes, order.ranks, strict=True))
    }
    templates = openb.Templates()
    arrivals = [
        offline.Arrival(
            float(number), templates.of(trace.pods[index]), name=f"p{number}", patience=PATIENCE
        )
        for number, index in enumerate(order.arrivals)
    ]
    log: list[tuple[int, tuple[int, ...]] | None] = [None] * len(arrivals)
    for each in world.run(until=float(len(arrivals)), workload=arrivals).placed:
        text = world.pod(each.pod).metadata.annotations.get(INDEX, "")
        devices = tuple(map(int, text.split("-"))) if text else ()
        log[int(each.pod.rpartition("/p")[2])] = numbers[each.node], devices
    return log
