"""The HTML report: it begins with the answer, and what others wrote is text."""

from __future__ import annotations

import msgspec

from scheduler.cli.shadow_report import report as lines_of
from scheduler.explain.records.shadow import (
    Cause,
    Counterfactual,
    PendingPod,
    ScoreDifference,
    ShadowMoment,
    ShadowPod,
    ShadowSummary,
    ShadowVerdict,
)
from scheduler.shadow.report import report

SUMMARY = ShadowSummary(
    began=0.0,
    now=600.0,
    names=("default-scheduler",),
    judged=1204,
    verdicts={"same": 1190, "other": 14},
    causes=(Cause(ShadowVerdict.OTHER, "NodeResourcesBalancedAllocation", 14),),
    sooner=3,
    sooner_seconds=75.0,
    waiting_both=1,
    waiting_there=1,
    nodes=9,
    pods=1300,
    differing=(
        ShadowPod(
            pod="a/<script>",
            uid="u",
            profile="p",
            verdict=ShadowVerdict.OTHER,
            there="n1",
            best="n2",
            bound=1.0,
            scores=(ScoreDifference("NodeResourcesFit", 90, 40),),
        ),
    ),
    pending=(
        PendingPod(pod="a/placed", profile="p", here="n3", since=540.0, message_there="<b>no</b>"),
        PendingPod(
            pod="a/waits", profile="p", message="0/9", message_there="0/9", same_reason=True,
            victims=("a/low",), nominated="n4",
        ),
    ),
)  # fmt: skip


def test_it_begins_with_the_answer() -> None:
    page = report(SUMMARY, "", "kubestow shadow --for 10m", ["agreement == 100"])
    body = page.partition("<body>")[2]
    assert body.lstrip().startswith(
        '<h1>Shadow</h1>\n<p class="verdict">1,204 decisions of default-scheduler in 10m: 98.8 % '
        "the same, 1.2 % other nodes, mostly because of NodeResourcesBalancedAllocation; 3 pods"
    )
    assert "Does not hold: agreement == 100" in page
    assert "Here is the shadow, there is default-scheduler." in page
    assert "NodeResourcesFit +50" in page
    assert "on n3 for 1m" in page
    assert "would evict a/low on n4" in page
    assert "the same reason" in page
    assert "kubestow shadow --for 10m" in page


def test_pods_that_are_not_compared_are_said_to_be() -> None:
    summary = msgspec.structs.replace(SUMMARY, unseen=2, waiting_more=5000)
    assert lines_of(summary)[0].endswith(
        "; 3 pods placed sooner here; 1 pod placed here and waiting there; 1 pod waiting here and "
        "there, 1 for another reason; 2 pods with a node when first seen, not compared; 5000 more "
        "pods without a node, not compared"
    )


def test_no_text_hides_another_or_changes_its_direction() -> None:
    hostile = "a\u202eb\x1b[2J\u200b"
    judged = ShadowPod(
        pod=hostile, uid="u", profile="p", verdict=ShadowVerdict.WOULD_NOT_FIT, there=hostile,
        bound=1.0,
        plugin=hostile, message=hostile,
    )  # fmt: skip
    pending = PendingPod(pod=hostile, profile="p", message=hostile, message_there=hostile)
    summary = msgspec.structs.replace(
        SUMMARY, names=(hostile,), differing=(judged,), pending=(pending,)
    )
    page = report(summary, hostile, hostile, [hostile])
    assert not {"\u202e", "\x1b", "\u200b"} & set(page)
    assert "a\\u202eb" in page


def test_foreign_texts_are_escaped_and_nothing_is_loaded() -> None:
    page = report(SUMMARY, "profiles: <script>", "x", [])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<b>no" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_counterfactual_is_a_table_and_plots() -> None:
    found = Counterfactual(
        seconds=600.0,
        there={"placed": 3.0, "wait_mean": 2.5},
        here={"placed": 4.0, "wait_mean": 0.1},
        moments=(
            ShadowMoment(
                300.0,
                {"cpu_allocation": 10.0, "waiting": 4.0},
                {"cpu_allocation": 20.0, "waiting": 0.0},
            ),
            ShadowMoment(
                600.0,
                {"cpu_allocation": 40.0, "waiting": 1.0},
                {"cpu_allocation": 40.0, "waiting": 0.0},
            ),
        ),
        notes=("a <fact>",),
    )
    page = report(msgspec.structs.replace(SUMMARY, counterfactual=found), "", "x", [])
    assert "If its decisions had held" in page
    assert page.count("<polyline") == 4
    assert 'points="0.0,90.0 600.0,0.0"' in page
    assert "a &lt;fact&gt;" in page
    lines = lines_of(msgspec.structs.replace(SUMMARY, counterfactual=found))
    assert any(line.split() == ["pods", "placed", "3", "4"] for line in lines)


def test_nothing_judged_is_a_report_too() -> None:
    empty = ShadowSummary(began=0.0, now=1.0, names=("p",), judged=0, verdicts={})
    page = report(empty, "", "x", [])
    assert "0 decisions of p in 1s" in page
    assert "Differences" not in page
