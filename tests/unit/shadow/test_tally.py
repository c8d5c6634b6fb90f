"""Sums of judgements, and their bounds."""

from __future__ import annotations

from scheduler.explain.records.shadow import PendingPod, ShadowPod, ShadowVerdict
from scheduler.explain.records.shadow_wording import figures, sentence
from scheduler.shadow.tally import MAX_CAUSES, MAX_DIFFERING, OTHER_CAUSES, ShadowTally


def judged(
    verdict: ShadowVerdict, *, plugin: str = "", sooner: float = 0.0, pod: str = "a/b"
) -> ShadowPod:
    return ShadowPod(
        pod=pod, uid="u", profile="p", verdict=verdict, there="n", bound=1.0, plugin=plugin,
        sooner=sooner,
    )  # fmt: skip


def test_what_agrees_is_counted_and_not_kept() -> None:
    tally = ShadowTally(["default-scheduler"], 100.0)
    for verdict in (ShadowVerdict.SAME, ShadowVerdict.TIE, ShadowVerdict.WINDOW):
        tally.add(judged(verdict))
    tally.add(judged(ShadowVerdict.OTHER, plugin="Fit", sooner=2.0))
    summary = tally.summary(160.0)
    assert (summary.judged, summary.agreeing, summary.percent) == (4, 3, 75.0)
    assert [each.verdict for each in summary.differing] == [ShadowVerdict.OTHER]
    assert [(each.plugin, each.pods) for each in summary.causes] == [("Fit", 1)]
    assert (summary.sooner, summary.sooner_seconds) == (1, 2.0)
    assert sentence(summary) == (
        "4 decisions of default-scheduler in 1m: 75.0 % the same, 25.0 % other nodes, mostly "
        "because of Fit; 1 pod placed sooner here"
    )
    assert figures(summary)["agreement"] == 75.0


def test_the_last_differences_come_first() -> None:
    tally = ShadowTally(["p"], 0.0)
    for index in range(MAX_DIFFERING + 5):
        tally.add(judged(ShadowVerdict.OTHER, pod=f"a/{index}"))
    assert len(tally.differing) == MAX_DIFFERING
    summary = tally.summary(1.0, rows=2)
    assert [each.pod for each in summary.differing] == [
        f"a/{MAX_DIFFERING + 4}",
        f"a/{MAX_DIFFERING + 3}",
    ]


def test_causes_are_bounded() -> None:
    tally = ShadowTally(["p"], 0.0)
    for index in range(MAX_CAUSES + 50):
        tally.add(judged(ShadowVerdict.WOULD_NOT_FIT, plugin=f"Plugin{index}"))
    assert len(tally.causes) == MAX_CAUSES + 1
    assert tally.causes[ShadowVerdict.WOULD_NOT_FIT, OTHER_CAUSES] == 50


def test_pods_that_do_not_wait_alike_come_first() -> None:
    waiting = [
        PendingPod(pod="a/same", profile="p", message="m", message_there="m", same_reason=True),
        PendingPod(pod="a/here", profile="p", message="m"),
        PendingPod(pod="a/unlike", profile="p", message="m", message_there="x"),
        PendingPod(pod="a/placed", profile="p", here="n", since=1.0, message_there="x"),
    ]
    summary = ShadowTally(["p"], 0.0).summary(9.0, pending=waiting)
    assert [each.pod for each in summary.pending] == ["a/placed", "a/unlike", "a/here", "a/same"]
    assert (summary.waiting_both, summary.waiting_same_reason) == (2, 1)
    assert (summary.waiting_there, summary.waiting_here) == (1, 1)
    assert sentence(summary) == (
        "0 decisions of p in 9s; 1 pod placed here and waiting there; 2 pods waiting here and "
        "there, 1 for another reason"
    )
