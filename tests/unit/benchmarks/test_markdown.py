"""The table of the documentation says what the report says."""

from __future__ import annotations

from benchmarks.markdown import rows
from benchmarks.report import busy_cores, own_share, report
from tests.unit.benchmarks.test_report import run


def test_one_row_for_each_workload_with_a_ratio_the_best_first() -> None:
    found = report(
        [
            run("kubestow", 300.0), run("kube-scheduler", 200.0),
            run("kubestow", 400.0, workload="V", created={"Node": 5}),
            run("kube-scheduler", 90.0, workload="V", created={"Node": 5}),
            run(
                "kube-scheduler, batching off", 100.0, workload="V", peak_memory_mib=50.0,
                created={"Node": 5},
            ),
            run("kubestow", workload="U"),
        ],
        {},
        {},
    )  # fmt: skip

    heading, *body = rows(found)

    assert heading[:7] == [
        "workload", "nodes", "kubestow pods/s", "kube-scheduler", "kube-scheduler, batching off",
        "ratio", "to the last Event",
    ]  # fmt: skip
    alike = ["1.00", "401.00, 401.00", "0.20, 0.20", "1.00, 1.00"]
    assert body == [
        ["V", "5", "400", "90", "100", "**4.00**", "4.00", *alike, "100, 50", "3.01", "0 %"],
        ["W", "0", "300", "200", "", "**1.50**", "1.50", *alike, "100, 100", "3.01", "0 %"],
    ]


def test_who_keeps_the_cores_busy() -> None:
    one = run("kubestow", scheduler_cpu_per_pod=0.1, window=2.0)

    assert busy_cores(one) == 2.0
    assert own_share(one) == 0.25
