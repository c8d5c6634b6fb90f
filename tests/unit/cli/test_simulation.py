"""`kubestow simulate` with workloads, changes, comparisons, assertions and reports."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler import offline
from tests.unit.cli.command_line import Shell
from tests.unit.config.json_schema import Validator

ROOT: Final = Path(__file__).parents[3]
ZONE = "topology.kubernetes.io/zone"
PACK = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kubestow
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
RAISING = """\
class Raising:
    name = "Raising"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if pod.metadata.name == "web-2":
            raise RuntimeError("no luck")
"""
GENERATOR = """\
rate: 0.05
until: 10m
amplitude: 0.5
pods:
- {template: job, duration: {exponential: 2m}, cpu: {choices: {1: 3, 2: 1}}}
- template: job
  weight: 0.5
  duration: {lognormal: {median: 30, sigma: 1}}
  memory: {uniform: [10, 300]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    nodes = [offline.node(f"n-{each}", cpu=4, labels={ZONE: "ab"[each % 2]}) for each in range(4)]
    pods = [offline.pod(f"web-{each}", cpu=1.5) for each in range(6)]
    write(tmp_path / "nodes.json", *nodes)
    write(tmp_path / "waiting.json", *nodes, *pods)
    (tmp_path / "job.json").write_text(json.dumps(offline.pod("job", cpu=1)))
    (tmp_path / "jobs.csv").write_text(
        "arrival,duration,template,count\n0,60,job,10\n1m,60,job,20\n"
    )
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "generator.yaml").write_text(GENERATOR)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SCHEMA: Final = Validator(json.loads((ROOT / "docs" / "simulate.schema.json").read_text()))


def write(path: Path, *items: dict[str, Any]) -> None:
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))


def answered(shell: Shell, *arguments: str, code: int = 0) -> dict[str, Any]:
    ended = shell("simulate", *arguments, "-o", "json")
    assert ended.code == code, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    assert SCHEMA.problems(found) == []
    return found


JOBS = ("nodes.json", "--workload", "jobs.csv", "--template", "job.json")


def test_a_workload_arrives_waits_runs_and_ends(shell: Shell) -> None:
    (run,) = answered(shell, *JOBS)["runs"]
    figures = run["figures"]
    assert (figures["placed"], figures["finished"], figures["waiting"]) == (30, 30, 0)
    assert figures["waiting_max"] > 0
    assert figures["wait_max"] >= 60
    assert 0 < figures["cpu_allocation_mean"] <= 100
    assert len(run["samples"]) > 20
    (run,) = answered(shell, *JOBS, "--until", "30s")["runs"]
    assert (run["figures"]["placed"], run["figures"]["time"]) == (10, 30)


@pytest.mark.parametrize(
    ("arguments", "waiting"),
    [
        ([], 0),
        (["--drop-node", "n-0"], 0),
        (["--drop-node", f"{ZONE}=a"], 2),
        (["--drop-node", "n-[0-2]"], 4),
        (["--cordon", "n-*"], 6),
        (["--cordon", "n-*", "--add-node", "cpu=2,count=2"], 4),
        (["--cordon", "n-*", "--add-node", "like=n-1,name=more"], 4),
        (["--cordon", "n-*", "--add-node", "cpu=9,taint=a=b:NoSchedule"], 6),
    ],
)
def test_nodes_are_changed_before_anything_is_scheduled(
    shell: Shell, arguments: list[str], waiting: int
) -> None:
    found = answered(shell, "waiting.json", *arguments, code=3 if waiting else 0)
    assert found["runs"][0]["figures"]["waiting"] == waiting


def test_a_comparison_says_what_differs_and_why(shell: Shell) -> None:
    found = answered(shell, "waiting.json", "--compare", "pack.yaml")
    (comparison,) = found["comparisons"]
    assert [each["name"] for each in found["runs"]] == ["default", "pack"]
    assert comparison["figures"]["placed"] == [6, 6]
    moved = comparison["differences"]
    assert moved
    assert {each["change"] for each in moved} == {"moved"}
    assert any("NodeResourcesFit -" in each["cause"] for each in moved)
    ended = shell("simulate", "waiting.json", "--compare", "pack.yaml")
    assert "pack compared to default, seed 0" in ended.out
    assert moved[0]["cause"] in ended.out


def test_the_table_has_figures_first_and_moved_pods_last_and_not_all_of_them(shell: Shell) -> None:
    nodes = [offline.node(f"n-{each}", cpu=32) for each in range(4)]
    pods = [offline.pod(f"web-{each:02}", cpu=1) for each in range(40)]
    write(Path("many.json"), *nodes, *pods, offline.pod("zz-large", cpu=30, priority=-1))
    out = shell("simulate", "many.json", "--compare", "pack.yaml").out
    lines = [" ".join(each.split()) for each in out.splitlines()]
    best = "pack is better than default: pods without a node 0 instead of 1 (100 % less); "
    assert lines[0].startswith(best)
    head = next(each for each in lines if each.startswith("pack compared to default, seed 0: "))
    count = int(head.split()[-4])
    assert count > 20
    assert head.endswith(f"{count} moved, 1 placed")
    assert lines.index("FIGURE DEFAULT PACK") < lines.index(head)
    at = lines.index(head)
    assert lines[at + 2].startswith("default/zz-large placed")
    # So many that moved are told by cause, with one pod for each.
    assert lines[at + 3].split() == ["MOVED", "CAUSE", "FOR", "EXAMPLE"]
    causes = [each for each in lines[at + 4 :] if "default/web-" in each]
    assert sum(int(each.split()[0]) for each in causes) == count
    assert all("n-" not in each for each in causes)
    assert lines[-1] == "pack: 41 pods placed, 0 evicted, 0 waiting"


def test_figures_that_are_equal_follow_in_a_line(shell: Shell) -> None:
    write(Path("one.json"), offline.node("n", cpu=8), offline.pod("p", cpu=1))
    lines = shell("simulate", "one.json", "--compare", "pack.yaml").out.splitlines()
    assert not [line for line in lines if line.startswith("FIGURE")]
    (line,) = [line for line in lines if line.startswith("equal: ")]
    assert line.startswith("equal: placed 1, waiting 0, evicted 0, ")


def test_assertions_decide_the_exit_code(shell: Shell) -> None:
    good = "waiting == 0 and 2 * placed >= nodes"
    assert shell("simulate", "waiting.json", "--assert", good).code == 0
    assert shell("simulate", "waiting.json", "--assert", good, "--assert", "placed > 9").code == 3
    found = answered(
        shell, "waiting.json", "--compare", "pack.yaml",
        "--assert", "compared.placed == base.placed", "--assert", "not evicted",
    )  # fmt: skip
    assert [(each["text"], each["run"], each["holds"]) for each in found["assertions"]] == [
        ("compared.placed == base.placed", "pack", True),
        ("not evicted", "default", True),
        ("not evicted", "pack", True),
    ]


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_workloads(shell: Shell) -> None:
    run = ("nodes.json", "--workload", "generator.yaml", "--template", "job.json", "--seeds")
    once = shell("simulate", *run, "3-4", "-o", "json")
    assert once.code == 0, once.err
    assert shell("simulate", *run, "3-4", "-o", "json").out == once.out
    first, second = json.loads(once.out)["runs"]
    assert (first["seed"], second["seed"]) == (3, 4)
    assert first["figures"] != second["figures"]
    assert "±" in shell("simulate", *run, "3-4").out


def test_lines_and_tables_have_a_row_for_each_pod(shell: Shell) -> None:
    lines = shell("simulate", "waiting.json", "--cordon", "n-0", "-o", "jsonl").out.splitlines()
    kinds = [json.loads(each)["type"] for each in lines]
    assert kinds == ["simulation"] + ["placed"] * 6 + ["sample", "figures"]
    rows = list(csv.DictReader(io.StringIO(shell("simulate", "waiting.json", "-o", "csv").out)))
    assert [each["event"] for each in rows] == ["placed"] * 6
    assert rows[0]["pod"] == "default/web-0"


def test_an_openb_pod_list_is_a_workload(shell: Shell) -> None:
    Path("pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,128,0,0\nb,2000,128,0,0\n"
    )
    found = answered(shell, "nodes.json", "--workload", "pods.csv")
    assert found["runs"][0]["figures"]["placed"] == 2


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("w.jsonl", "", "w.jsonl:1: the file is empty"),
        ("w.csv", "", "w.csv:1: the file is empty"),
        ("w.csv", "arrival,template\n", "w.csv:1: there is no row below the header"),
        (
            "w.csv",
            "arrival,template,count\n" + "0,job,1000000\n" * 7,
            "w.csv:7: count: 6000000 pods",
        ),
        (
            "w.yaml",
            f"rate: 1\nuntil: 1\npods: [{', '.join(['{template: job}'] * 1001)}]",
            "w.yaml: pods: 1001 kinds of pods; give at most 1000",
        ),
    ],
)
def test_a_workload_that_is_empty_or_too_large_is_refused(
    shell: Shell, file: str, content: str, error: str
) -> None:
    Path(file).write_text(content)
    ended = shell("simulate", "nodes.json", "--workload", file, "--template", "job.json")
    assert ended.code == 2, ended.out
    assert error in ended.err
    assert not ended.out


def test_faults_of_a_generator_are_listed_together(shell: Shell) -> None:
    Path("generator.yaml").write_text(
        "rate: fast\nuntil: 1 moon\nprice: 1\n"
        "pods: [{template: none, duration: {zipf: 1}, cpu: {uniform: [2, 1]}}]\n"
    )
    ended = shell(
        "simulate", "nodes.json", "--workload", "generator.yaml", "--template", "job.json"
    )
    assert ended.code == 2
    for text in ("price: unknown", "rate: 'fast'", "until: '1 moon'", "template: 'none' is unknown",
                 "duration: give a number", "cpu: uniform: give 0 <= low"):  # fmt: skip
        assert text in ended.err


def test_a_plugin_that_raises_ends_its_run_and_the_others_go_on(shell: Shell, folder: Path) -> None:
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "raising_filter.py").write_text(RAISING)
    enabled = "  plugins: {filter: {enabled: [{name: 'raising_filter:Raising'}]}}\n"
    (folder / "raising.yaml").write_text(PACK.partition("  pluginConfig")[0] + enabled)
    found = answered(
        shell, "waiting.json", "--plugin-dir", "plugins", "--compare", "raising.yaml",
        "--assert", "waiting == 0", code=3,
    )  # fmt: skip
    good, bad = found["runs"]
    assert not good["error"]
    assert good["figures"]["placed"] == 6
    assert bad["error"].startswith("plugin Raising raised")
    assert bad["error"].endswith(": no luck")
    assert "RuntimeError" in bad["error"]
    # Pods that it did not reach do not fare otherwise.
    assert found["comparisons"] == []
    assert not bad["figures"]
    # At once: the pods after it were not tried, and no time has passed.
    assert [each["pod"] for each in bad["result"]["placed"]] == ["default/web-0", "default/web-1"]
    assert {each["attempts"] for each in bad["result"]["waiting"]} == {0, 1}
    assert bad["result"]["ended"] == 0
    assert [each["holds"] for each in found["assertions"]] == [True, False]


def test_configurations_and_figures_are_checked_before_the_first_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("something ran")

    monkeypatch.setattr("scheduler.offline.experiment.Simulation.run", never)
    for name in ("one.yaml", "two.yaml"):
        Path(name).write_text(PACK.replace("MostAllocated", "Fullest"))
    ended = shell("simulate", "waiting.json", "--compare", "one.yaml", "--compare", "two.yaml")
    assert ended.code == 2
    assert ended.err.count("scoringStrategy.type") == 2
    assert "one.yaml: profiles[0]" in ended.err
    assert "two.yaml: profiles[0]" in ended.err
    for expression in ("wating == 0", "base.wating == compared.waiting"):
        ended = shell("simulate", "waiting.json", "--compare", "pack.yaml", "--assert", expression)
        assert ended.code == 2
        assert "wating; did you mean" in ended.err


@pytest.mark.slow
def test_a_report_is_one_page_without_scripts_that_repeats(shell: Shell, folder: Path) -> None:
    run = (*JOBS, "--seeds", "0-1", "--compare", "pack.yaml", "--assert", "waiting < 1 or 1 > 2")
    ended = shell("simulate", *run, "--report", "r.html")
    assert ended.code == 0, ended.err
    page = (folder / "r.html").read_text()
    assert page.count("<svg") >= 6
    assert "<script" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert "waiting &lt; 1 or 1 &gt; 2" in page
    assert "type: MostAllocated" in page
    assert "kubestow simulate nodes.json --seeds 0-1 --compare pack.yaml" in page
    assert sorted(each.name for each in folder.glob("*.html*")) == ["r.html"]
    shell("simulate", *run, "--report", "r.html")
    assert (folder / "r.html").read_text() == page


@pytest.mark.slow
def test_a_report_begins_with_the_answer_and_shows_equal_curves_as_one(
    shell: Shell, folder: Path
) -> None:
    (folder / "same.yaml").write_text(PACK)
    run = (*JOBS, "--seeds", "0-1", "--compare", "pack.yaml", "--compare", "same.yaml")
    ended = shell("simulate", *run, "--assert", "placed > 99", "--report", "r.html")
    assert ended.code == 3, ended.err
    page = (folder / "r.html").read_text()
    verdict = '<p class="verdict">No: placed &gt; 99 fails in 6 of 6 checks.</p>'
    assert page.index(verdict) < page.index("<li>pack: 30 pods placed") < page.index("<table")
    assert "pack = same</text>" in page
    assert "same</text>" not in page.replace("pack = same</text>", "")
    assert "<td class=number>30</td>" in page
    assert "stroke-dasharray" in page
    ended = shell("simulate", *JOBS, "--report", "r.html")
    assert "Every pod has a node." in (folder / "r.html").read_text()


def test_a_report_of_equal_policies_has_no_empty_table(shell: Shell, folder: Path) -> None:
    write(folder / "dump.json", offline.node("n", cpu=8), offline.pod("giant", cpu=64))
    ended = shell("simulate", "dump.json", "--compare", "pack.yaml", "--report", "r.html")
    assert ended.code == 3, ended.err
    page = (folder / "r.html").read_text()
    assert '<p class="verdict">pack does as well as default: every figure is equal.</p>' in page
    assert '<p class="verdict">Pods wait at the end of 2 of 2 runs.</p>' in page
    assert "equal for all" in page
    assert "<tbody></tbody>" not in page


def test_a_report_of_a_comparison_begins_with_what_is_better(shell: Shell, folder: Path) -> None:
    nodes = [offline.node(f"n{number}", cpu=8) for number in range(3)]
    small = [offline.pod(f"small-{number}", cpu=2) for number in range(3)]
    large = [offline.pod(f"very-large-{number}", cpu=8) for number in range(2)]
    write(folder / "dump.json", *nodes, *small, *large)
    ended = shell("simulate", "dump.json", "--compare", "pack.yaml", "--report", "r.html")
    assert ended.code == 3, ended.err
    page = (folder / "r.html").read_text()
    body = page[page.index("<body>") :]
    assert (
        body.index("pack is better than default: ")
        < body.index("What differs most")
        < body.index("<table")
    )
    # Equal figures, and the pods one by one, are folded.
    assert re.search(r"<details><summary>\d+ figures: equal for all</summary>", body)
    assert body.count("<summary>Pod by pod</summary>") == 2
    assert "the node before compared to it: NodeResourcesFit less" in body


def test_many_waiting_pods_are_named_by_reason(shell: Shell, folder: Path) -> None:
    large = [offline.pod(f"large-{number:02}", cpu=9) for number in range(30)]
    write(folder / "dump.json", offline.node("n", cpu=4), *large)
    shown = shell("simulate", "dump.json").out
    assert "30 pods wait, by reason; -o json has each:" in shown
    (row,) = [line.split() for line in shown.splitlines() if line.strip().startswith("30  ")]
    assert row[:2] == ["30", "unschedulable"]
    assert "default/large-02" in shown
    assert "default/large-03" not in shown


def test_a_report_lists_who_waits_in_every_run_once(shell: Shell, folder: Path) -> None:
    huge = [offline.pod(f"huge-{number}", cpu=99) for number in range(2)]
    write(folder / "dump.json", offline.node("n", cpu=8), *huge)
    ended = shell("simulate", "dump.json", "--compare", "pack.yaml", "--report", "r.html")
    assert "the report is in r.html" in ended.err
    _, _, section = (folder / "r.html").read_text().partition("Who waits at the end")
    table, _, _ = section.partition("</table>")
    assert table.count("<tr>") == 2, "the headings and one group"
    assert "default, pack" in table
    assert "default/huge-0, default/huge-1" in table


def test_names_in_a_report_are_escaped(shell: Shell, folder: Path) -> None:
    hostile = "<script>alert(1)</script>"
    write(folder / "dump.json", offline.node("n", cpu=1), offline.pod(hostile, cpu=9))
    (folder / "<b>$x_1.yaml").write_text(PACK)
    ended = shell("simulate", "dump.json", "--compare", "<b>$x_1.yaml", "--report", "r.html")
    assert ended.code == 3, ended.err
    page = (folder / "r.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "<b>" not in page
    missing = shell("simulate", "dump.json", "--report", "none/r.html")
    assert (missing.code, "none/r.html: No such file" in missing.err) == (1, True)
