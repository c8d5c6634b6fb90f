"""Worlds of bundles and replays of hand-made files: what they refuse, skip and restore."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler import offline
from scheduler.offline.judgement import Judgement
from scheduler.offline.replay import Replay
from scheduler.recording.format import API_VERSION, BundleError, Header
from scheduler.recording.writing import BundleWriter
from tests.unit.offline.bundle_files import (
    ATTEMPT,
    CONFIGURATION,
    STATE,
    Line,
    change,
    small,
    stored,
    write_bundle,
)

HUGE: Final = 10**30
Write = Callable[..., Path]
DEEP: Final = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes lines as a file, a recording if it has a stream."""
    return partial(write_bundle, tmp_path / "file")


def judged(path: Path) -> list[Judgement]:
    with Replay.of(path) as replay:
        return list(replay.run())


def test_a_small_recording_is_replayed(write: Write) -> None:
    (found,) = judged(write(small(("attempt", ATTEMPT))))
    assert (found.result, found.why) == ("reproduced", "")


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"node": "moon", "evaluated": 1, "feasible": 1}, "node was moon, here n"),
        ({"node": "n", "evaluated": 9, "feasible": 1}, "evaluated was 9, here 1"),
        ({"reason": "Unschedulable", "message": "full"}, "message was full, here none"),
    ],
)
def test_a_difference_is_named_with_the_version_that_wrote_the_file(
    write: Write, outcome: dict[str, Any], why: str
) -> None:
    (found,) = judged(write(small(("attempt", ATTEMPT | {"outcome": outcome}))))
    assert found.result == "different"
    assert why in found.why
    assert "written by kubestow 9.9, and this is" in found.why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"uid": "another"}, "the pod is not in the file"),
        ({"pod": "default/nobody"}, "the pod is not in the file"),
        (
            {"outcome": {"node": "n", "unjudgeable": "extenders took part"}},
            "extenders took part",
        ),
    ],
)
def test_an_attempt_that_cannot_be_judged_says_why(
    write: Write, change: dict[str, Any], why: str
) -> None:
    (found,) = judged(write(small(("attempt", ATTEMPT | change))))
    assert (found.result, found.why) == ("unjudged", why)


def test_kinds_of_a_later_version_are_counted_and_skipped(write: Write) -> None:
    strange = {"apiVersion": "later.k8s.io/v3", "kind": "Thing", "metadata": {"name": "x"}}
    path = write(small(change(strange, plural="things"), ("attempt", ATTEMPT), ("later", {"x": 1})))
    with Replay.of(path) as replay:
        assert [each.result for each in replay.run()] == ["reproduced"]
        assert replay.unknown == {"later.k8s.io/v3 Thing": 1}
    known = [stored(offline.node("n", cpu=4)), stored(offline.pod("web", cpu=1))]
    path = write(small(object=[*known, strange]), kind="Bundle")
    with offline.World.load(path) as world:
        assert "later.k8s.io/v3 Thing: 1 skipped, since this version knows no such objects" in (
            world.notes
        )
        world.schedule()
        assert world.placements() == {"default/web": "n"}


def test_a_recorded_change_is_applied_before_the_attempt_that_saw_it(write: Write) -> None:
    full = change(stored(offline.node("n", cpu=0)), "MODIFIED", "nodes")
    (found,) = judged(write(small(full, ("attempt", ATTEMPT))))
    assert found.result == "different"
    assert "node was n, here none" in found.why


MALFORMED: Final[dict[str, list[Line]]] = {
    "no configuration": small(configuration=[]),
    "no state": small(state=[]),
    "a configuration that is none": small(configuration=[{"configuration": {"kind": "Pod"}}]),
    "a setting of another version": small(
        configuration=[{"configuration": CONFIGURATION["configuration"] | {"later": 1}}]
    ),
    "a plugin that is not installed": small(
        configuration=[
            {
                "configuration": CONFIGURATION["configuration"]
                | {
                    "profiles": [
                        {
                            "schedulerName": "x",
                            "plugins": {"score": {"enabled": [{"name": "absent:Plugin"}]}},
                        }
                    ]
                }
            }
        ]
    ),
    "a random state that is none": small(state=[STATE | {"random": [3, [1, 2], None]}]),
    "a huge random state": small(state=[STATE | {"random": [3, [HUGE] * 625, None]}]),
    "a state of another type": small(state=[STATE | {"time": "noon"}]),
    "a row of another type": small(row=[{"node": 7}]),
    "a nameless object": small(object=[{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]),
    "an amount that is none": small(object=[stored(offline.node("n", cpu="many"))]),
    "a place that is none": small(queue=[{"pod": "default/web", "uid": "web-uid", "place": "x"}]),
    "a queue record of another type": small(
        queue=[
            {"pod": "default/web", "uid": "web-uid", "place": "active", "info": {"attempts": []}}
        ]
    ),
    "an attempt without outcome": small(("attempt", {"seq": 1})),
    "an attempt with another random state": small(
        ("attempt", ATTEMPT | {"random": {"position": 1, "words": [1]}})
    ),
    "a change without object": small(("delta", {"time": 1.0, "monotonic": 1.0})),
    "a binding step with another failure": small(
        ("binding", {"time": 1.0, "monotonic": 1.0, "uid": "x", "step": "failed", "failure": 7})
    ),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_file_that_makes_no_sense_is_refused_by_name(write: Write, kind: str) -> None:
    path = write(MALFORMED[kind])
    with pytest.raises(BundleError) as caught:
        judged(path)
    assert str(path) in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("section", ["object", "queue", "plugin", "attempt", "delta", "decision"])
def test_a_line_that_nests_deeply_is_refused(tmp_path: Path, section: str) -> None:
    writer = BundleWriter(Header(api_version=API_VERSION, kind="Bundle", version="9.9"))
    pieces = [writer.begin(), *(writer.add(*line) for line in small())]
    pieces += [writer.add_raw(section, DEEP)]
    path = tmp_path / "deep"
    path.write_bytes(b"".join([*pieces, writer.end()]))
    with pytest.raises(BundleError, match=f"{path}: "):
        judged(path)
