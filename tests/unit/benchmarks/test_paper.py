"""`make paper`: the experiment places pods as its rules say, and tells what differs."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from benchmarks.paper import experiment, measures, report, traces
from benchmarks.paper.__main__ import main
from scheduler import offline
from scheduler.offline import openb

MODELS: Final = ("T4", "A10")
LAST_LINE: Final = re.compile(
    r"paper: largest difference (\S+) percentage points over (\d+) runs; "
    r"FGD mean (\S+); Random mean (\S+)"
)


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the plots, which take longer than the runs."""
    monkeypatch.setattr(report, "plot", lambda *_: [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace of six nodes and forty pods, with two orders."""
    source = random.Random(3)
    nodes = [
        (f"n-{number}", source.choice([32000, 64000]), 262144, source.choice([1, 2, 4]), model)
        for number, model in enumerate(MODELS * 3)
    ]
    pods = []
    for number in range(40):
        gpus, milli = source.choice([(0, 0), (1, 300), (1, 460), (1, 810), (1, 1000), (2, 1000)])
        spec = source.choice(["", "", "", "T4", "A10|T4"]) if gpus else ""
        cpu = source.choice([2000, 4000, 8000])
        pods.append((f"p-{number:02}", cpu, 4096, gpus, milli, spec))
    (tmp_path / "orders").mkdir()
    _write(tmp_path / "openb_node_list_all.csv", "sn,cpu_milli,memory_mib,gpu,model", nodes)
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    _write(tmp_path / "openb_pod_list_small.csv", header, pods)
    rows = []
    for seed in (1, 2):
        arrivals = [*source.sample(range(40), 40), *source.choices(range(40), k=6)]
        rows.append((seed, "arrivals", " ".join(map(str, arrivals))))
        rows.append((seed, "nodes", " ".join(map(str, source.sample(range(6), 6)))))
    with gzip.open(tmp_path / "orders" / "small.csv.gz", "wt") as file:
        file.write("seed,kind,values\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    return tmp_path


def _write(path: Path, header: str, rows: Sequence[Sequence[object]]) -> None:
    lines = [header, *(",".join(map(str, each)) for each in rows)]
    path.write_text("\n".join(lines) + "\n")


def invoke(folder: Path, *options: str) -> Any:
    results = str(folder / "results")
    return CliRunner().invoke(main, [str(folder), "--processes=0", "--results", results, *options])


# -- decisions -----------------------------------------------------------------------------------


class Reference:
    """The rules of the paper, node by node and without any of the plugins."""

    def __init__(self, trace: traces.Trace, policy: str) -> None:
        self.trace, self.policy = trace, policy
        self.cpu = [each.cpu_milli for each in trace.nodes]
        self.left = [[1000] * each.gpus for each in trace.nodes]
        self.typical = traces.typical_pods(trace.pods)

    def fragmentation(self, cpu: int, left: list[int], model: str) -> float:
        wasted = 0.0
        for each in self.typical:
            kind: Any = each
            usable = [free for free in left if free >= kind["gpuMilli"]]
            fits = (
                kind["gpus"]
                and len(usable) >= kind["gpus"]
                and cpu >= kind["cpu"]
                and (not kind["models"] or model in kind["models"])
            )
            wasted += kind["pods"] * (sum(left) - (sum(usable) if fits else 0))
        total: Any = sum(int(str(each["pods"])) for each in self.typical)
        return float(wasted / total)

    def score(self, node: int, pod: openb.TracePod, devices: tuple[int, ...]) -> int:
        cpu, left = self.cpu[node], self.left[node]
        if self.policy == "BestFit":
            rest = sum(left) - pod.gpus * pod.gpu_milli
            return int(100 * (1 - (0.5 * (cpu - pod.cpu_milli) / 128000 + 0.5 * rest / 8000)))
        model = self.trace.nodes[node].model
        after = [free - pod.gpu_milli * (index in devices) for index, free in enumerate(left)]
        decrease = self.fragmentation(cpu, left, model) - self.fragmentation(
            cpu - pod.cpu_milli, after, model
        )
        return int(100 / (1 + math.exp(-decrease / 1000)))

    def choices(self, node: int, pod: openb.TracePod) -> list[tuple[int, ...]]:
        """The devices that the pod may get, the policy's favourite by rule first."""
        models, left = pod.models, self.left[node]
        fitting = [index for index, free in enumerate(left) if free >= pod.gpu_milli]
        if self.cpu[node] < pod.cpu_milli or len(fitting) < pod.gpus:
            return []
        if models and self.trace.nodes[node].model not in models:
            return []
        if pod.gpu_milli in (0, 1000):
            return [tuple(fitting[: pod.gpus])]
        if self.policy == "FGD":
            return [(index,) for index in fitting]
        return [(min(fitting, key=left.__getitem__),)]

    def play(self, order: openb.Order) -> list[tuple[int, tuple[int, ...]] | None]:
        log: list[tuple[int, tuple[int, ...]] | None] = []
        for index in order.arrivals:
            pod = self.trace.pods[index]
            best: Any = None
            for node in sorted(range(len(self.cpu)), key=order.ranks.__getitem__):
                for devices in self.choices(node, pod):
                    score = self.score(node, pod, devices)
                    if best is None or score > best[0]:
                        best = score, node, devices
            log.append(None if best is None else best[1:])
            if best is not None:
                self.cpu[best[1]] -= pod.cpu_milli
                for device in best[2]:
                    self.left[best[1]][device] -= pod.gpu_milli
        return log


@pytest.mark.parametrize("policy", ["BestFit", "FGD"])
def test_each_pod_goes_where_the_rules_send_it(folder: Path, policy: str, tmp_path: Path) -> None:
    trace = traces.read(traces.files(folder)[0]["small"])
    config = tmp_path / "config.json"
    given = experiment.configuration(policy, traces.typical_pods(trace.pods))
    config.write_text(json.dumps(given))
    for order in trace.orders.values():
        with offline.World(config=config, plugin_dirs=[experiment.EXAMPLE]) as world:
            log = experiment.play(world, trace, order)
        assert log == Reference(trace, policy).play(order)
        assert 10 < sum(each is not None for each in log) < len(log)


# -- measures ------------------------------------------------------------------------------------


def test_curves_are_means_over_bins_and_empty_bins_borrow() -> None:
    node = openb.TraceNode("n", 8000, 1024, 1, "T4")
    pods = tuple(openb.TracePod(f"p{number}", 4000, 1, 1, 500) for number in range(2))
    found = measures.curves(
        traces.Trace((node,), pods, {}), [0, 1, 1], [(0, (0,)), None, (0, (0,))]
    )
    assert len(found["allocation"]) == 151
    assert found["allocation"][50] == 50.0
    assert found["allocation"][49] == 50.0
    assert found["allocation"][100] == 50.0
    assert found["allocation"][150] == 100.0
    assert math.isnan(found["allocation"][20])
    # Half of the node is free, and the typical pod can use it, then nothing is free.
    assert found["fragmentation"][50] == 0.0
    assert found["ratio"][150] == 0.0


def test_typical_pods_are_the_most_frequent_ones() -> None:
    pods = [openb.TracePod(f"a{number}", 1000, number, 1, 500) for number in range(60)]
    pods += [openb.TracePod(f"b{number}", 2000, 1, 0, 0) for number in range(36)]
    pods += [openb.TracePod(f"c{number}", 3000, 1, 1, 1000, "T4|A10") for number in range(4)]
    found = traces.typical_pods(pods)
    assert [(each["cpu"], each["pods"]) for each in found] == [(1000, 60), (2000, 36)]


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_compares_with_what_was_published_and_ends_with_a_summary(
    folder: Path,
) -> None:
    first = invoke(folder, "--policies", "BestFit,FGD,Random")
    assert first.exit_code == 0, first.output
    matched = LAST_LINE.fullmatch(first.stdout.splitlines()[-1])
    assert matched is not None
    assert matched[1] == "-"
    assert matched[2] == "6"
    assert "| trace | policy | seeds | @80 | @100 | @130 |" in first.stdout
    assert "Nothing was compared: the folder has no published curves." in first.stdout
    _publish(folder, 0.25)
    again = invoke(folder, "--policies", "BestFit", "--seeds", "2")
    assert again.stdout.splitlines()[-1] == (
        "paper: largest difference 0.25 percentage points over 1 runs; FGD mean -; Random mean -"
    )
    assert "| small | BestFit | 1 |" in again.stdout
    row = next(each for each in again.stdout.splitlines() if each.startswith("| small"))
    assert row.endswith(" | 0.25 | 0.25 | - | - |")
    assert (folder / "results" / "paper-ratio.webp").read_bytes().startswith(b"RIFF")
    assert (folder / "results" / "paper-allocation.svg").read_text().startswith("<?xml")


def _publish(folder: Path, difference: float) -> None:
    """Publish the curve of BestFit, with one point that is off."""
    parameters = {"folder": str(folder), "trace": "small", "policy": "BestFit", "seed": 2}
    points = experiment.run(parameters)["allocation"]
    points[50] += difference
    (folder / "expected").mkdir()
    with gzip.open(folder / "expected" / "alloc.csv.gz", "wt") as file:
        header = ",".join(map(str, range(len(points))))
        file.write(f"trace,policy,seed,{header}\nsmall,BestFit,2,{','.join(map(str, points))}\n")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--policies", "Best"], "policy 'Best' is unknown; known are Random"),
        (["--seeds", "9"], "seed '9' is unknown; known are 1, 2"),
        (["--traces", "other"], "trace 'other' is unknown; known are small"),
    ],
)
def test_what_is_unknown_is_named(folder: Path, options: list[str], text: str) -> None:
    found = invoke(folder, *options)
    assert found.exit_code == 1
    assert text in found.output


@pytest.mark.usefixtures("no_plots")
def test_what_is_left_out_is_said(folder: Path) -> None:
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    _write(folder / "openb_pod_list_cpu.csv", header, [("a", 1000, 1, 0, 0)])
    _write(folder / "openb_pod_list_orderless.csv", header, [("a", 1000, 1, 1, 500)])
    _write(folder / "openb_pod_list_one.csv", header, [("a", 1000, 1, 1, 500)])
    for name, seed in (("cpu", 1), ("one", 1), ("listless", 1)):
        rows = [(seed, "arrivals", 0), (seed, "nodes", "5 4 3 2 1 0")]
        # Orders need not be compressed.
        _write(folder / "orders" / f"{name}.csv", "seed,kind,values", rows)
    found = invoke(folder, "--policies", "BestFit")
    assert found.exit_code == 0, found.output
    left_out = [each for each in found.stdout.splitlines() if each.startswith("Left out: ")]
    assert left_out == [
        "Left out: orderless, since there is no orders/orderless.csv.gz.",
        "Left out: listless, since there is no openb_pod_list_listless.csv.",
        "Left out: cpu, since none of its pods requests a GPU.",
        "Left out: one with seed 2, of which it has no orders.",
    ]
    matched = LAST_LINE.fullmatch(found.stdout.splitlines()[-1])
    assert matched is not None
    assert matched[2] == "3"
    refused = invoke(folder, "--policies", "BestFit", "--traces", "cpu")
    assert refused.exit_code == 1
    assert "there is nothing to run" in refused.output


@pytest.mark.slow
def test_points_that_nobody_knows_are_no_numbers(folder: Path) -> None:
    nodes = [("n-0", 64000, 262144, 2, "H100")]
    _write(folder / "openb_node_list_all.csv", "sn,cpu_milli,memory_mib,gpu,model", nodes)
    rows = [(1, "arrivals", "0 1 2 3"), (1, "nodes", 0), (2, "arrivals", "0 1"), (2, "nodes", 0)]
    _write(folder / "orders" / "small.csv", "seed,kind,values", rows)
    (folder / "orders" / "small.csv.gz").unlink()
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    pods = [(f"p-{number}", 1000, 1, 1, 630) for number in range(4)]
    _write(folder / "openb_pod_list_small.csv", header, pods)
    found = invoke(folder, "--policies", "FGD")
    assert found.exit_code == 0, found.output
    table = [each for each in found.stdout.splitlines() if each.startswith("|")]
    assert table[0] == "| trace | policy | seeds | @80 | @100 | @130 | end |"
    assert table[2] == "| small | FGD | 2 | - | - | - | 63.00 ± 0.00 |"
    assert "nan" not in found.stdout
    assert found.stdout.splitlines()[-1].endswith("FGD mean 63.00; Random mean -")


def test_faults_of_all_files_are_listed_at_once(folder: Path) -> None:
    for name in ("small", "other"):
        (folder / f"openb_pod_list_{name}.csv").write_text(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,-1,1,0,0\n"
        )
        _write(folder / "orders" / f"{name}.csv", "seed,kind,values", [(1, "arrivals", "x")])
    (folder / "orders" / "small.csv.gz").unlink()
    path = folder / "openb_node_list_all.csv"
    path.write_text(path.read_text().replace(",T4", ",").replace("n-0", "N-0"))
    (folder / "expected").mkdir()
    _write(
        folder / "expected" / "alloc.csv", "trace,policy,seed,0,1", [("small", "FGD", 1, "x", "")]
    )
    found = invoke(folder)
    assert found.exit_code == 1
    faults = [each.removeprefix("Error: ").removeprefix(f"{folder}/") for each in
              found.stderr.splitlines()]  # fmt: skip
    assert [each.partition(";")[0] for each in faults] == [
        "expected/alloc.csv:2: 0 is 'x'",
        "openb_node_list_all.csv:2: sn is 'N-0'",
        "openb_node_list_all.csv:2: model is ''",
        "openb_node_list_all.csv:4: model is ''",
        "openb_node_list_all.csv:6: model is ''",
        "openb_pod_list_other.csv:2: cpu_milli is '-1'",
        "orders/other.csv:2: values: give whole numbers from 0 to 99999999, separated by spaces",
        "orders/other.csv:2: seed 1 has arrivals, but no nodes",
        "openb_pod_list_small.csv:2: cpu_milli is '-1'",
        "orders/small.csv:2: values: give whole numbers from 0 to 99999999, separated by spaces",
        "orders/small.csv:2: seed 1 has arrivals, but no nodes",
    ]
    assert not (folder / "results").exists()


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        (65, "openb_node_list_all.csv: 1 rows have more than 64 GPUs"),
        (0, "no node has GPUs"),
    ],
)
def test_clusters_without_curves_are_refused(folder: Path, gpus: int, text: str) -> None:
    nodes = [
        ("n-0", 64000, 262144, gpus, "H100"),
        *((f"n-{each}", 1, 1, 0, "") for each in range(1, 6)),
    ]
    _write(folder / "openb_node_list_all.csv", "sn,cpu_milli,memory_mib,gpu,model", nodes)
    found = invoke(folder)
    assert found.exit_code == 1
    assert text in found.output


@pytest.mark.usefixtures("no_plots")
def test_finished_runs_are_reused_whatever_else_is_in_the_folder(folder: Path) -> None:
    options = ("--policies", "BestFit", "--seeds", "1")
    assert invoke(folder, *options).exit_code == 0
    file = folder / "results" / "runs" / "runs" / "small-BestFit-1.json"
    before = file.stat()
    (folder / "README.md").write_text("another file")
    _publish(folder, 0.0)
    assert invoke(folder, *options).exit_code == 0
    assert file.stat() == before
    path = folder / "openb_pod_list_small.csv"
    path.write_text(path.read_text().replace(",8000,", ",4000,"))
    assert invoke(folder, *options).exit_code == 0
    assert file.stat() != before


def test_scores_are_scaled_by_nodes_larger_than_those_of_the_paper() -> None:
    large = openb.TraceNode("n", 256_000, 1, 16, "B200")
    for policy, file in experiment.POLICIES.items():
        scaled = experiment.configuration(policy, [], [large])["profiles"][0].get(
            "pluginConfig", []
        )
        found = [each["args"] for each in scaled if "maxCpu" in each["args"]]
        assert found == [{"maxCpu": 256_000, "maxGpus": 16}] * (policy in report.EXACT), file
        small = openb.TraceNode("n", 1000, 1, 2, "T4")
        assert experiment.configuration(policy, [], [small]) == experiment.configuration(policy, [])


def test_ranks_order_the_names_of_more_than_ten_thousand_nodes() -> None:
    node = openb.TraceNode("n", 1000, 1, 1, "T4")
    names = [openb.node(node, rank, digits=5)["metadata"]["name"] for rank in (9999, 10000)]
    assert names == sorted(names)


def test_a_folder_that_lacks_something_is_refused(folder: Path) -> None:
    assert "there is no such folder" in invoke(folder / "absent").output
    (folder / "orders" / "small.csv.gz").unlink()
    assert "no trace has both a pod list" in invoke(folder).output
    (folder / "openb_node_list_all.csv").unlink()
    assert "exactly one file" in invoke(folder).output


def test_faults_of_a_file_have_their_lines(folder: Path) -> None:
    path = folder / "openb_pod_list_small.csv"
    path.write_text(path.read_text().replace("p-03,", "p-03,-"))
    found = invoke(folder)
    assert found.exit_code == 1
    assert "openb_pod_list_small.csv:5: cpu_milli" in found.output


@pytest.mark.usefixtures("no_plots")
def test_policies_of_which_nothing_was_published_stand_beside_those_that_were(folder: Path) -> None:
    _publish(folder, 0.0)
    found = invoke(folder, "--policies", "BestFit,FGD/random-ties", "--seeds", "2")
    assert found.exit_code == 0, found.output
    rows = [each for each in found.stdout.splitlines() if each.startswith("| small")]
    assert rows[0].endswith(" | 0.00 | 0.00 | - | - |")
    assert rows[1].endswith(" | - | - | - | - |")


def test_means_over_seeds_differ_less_than_single_runs() -> None:
    curves = {1: [1.0, 4.0], 2: [3.0, 4.0]}
    runs = [report.Found("t", "Random", seed, {"ratio": own}) for seed, own in curves.items()]
    published = {("t", "Random", seed): {"ratio": [2.0, 4.5]} for seed in curves}
    assert [report.difference(each, published) for each in runs] == [1.0, 1.0]
    assert report.of_means(runs, published, "ratio") == 0.5
    assert report.of_means(runs, published, "allocation") is None
    nothing_near = {("t", "Random", 1): {"ratio": [math.nan, 4.0]}}
    assert report.difference(runs[0], nothing_near) == 0.0


def test_a_curve_that_ends_early_differs() -> None:
    found = report.Found("t", "BestFit", 1, {"allocation": [1.0, 2.0]})
    assert report.difference(found, {("t", "BestFit", 1): {"allocation": [1.0, 2.0, 3.0]}}) == 100.0
    assert report.difference(found, {}) is None
