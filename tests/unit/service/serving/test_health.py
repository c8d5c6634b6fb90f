"""The texts of the health endpoints, as a running kube-scheduler v1.36.2 answers them."""

from __future__ import annotations

import pytest

from scheduler.service.serving import HealthChecks, HealthSlis, scheduler_checks
from scheduler.service.serving.health import ENDPOINTS, Check


def passes() -> str | None:
    return None


def fails() -> str | None:
    return "no lease for 36 s"


def raises() -> str | None:
    raise RuntimeError("broken check")


def checks(
    leader_election: Check | None = None, shutdown: Check = passes, sync: Check = passes
) -> HealthChecks:
    return scheduler_checks(leader_election=leader_election, shutdown=shutdown, handler_sync=sync)


@pytest.mark.parametrize(
    ("elected", "expected"),
    [
        (
            False,
            {"healthz": "ping", "livez": "ping", "readyz": "shutdown sched-handler-sync"},
        ),
        (
            True,
            {
                "healthz": "leaderElection",
                "livez": "ping",
                "readyz": "leaderElection shutdown sched-handler-sync",
            },
        ),
    ],
)
def test_each_endpoint_has_upstreams_checks(elected: bool, expected: dict[str, str]) -> None:
    found = checks(passes if elected else None)
    assert {each: " ".join(found.names(each)) for each in ENDPOINTS} == expected


@pytest.mark.parametrize(
    ("endpoint", "verbose", "excluded", "body"),
    [
        ("healthz", False, [], "ok"),
        ("healthz", True, [], "[+]ping ok\nhealthz check passed\n"),
        ("livez", True, [], "[+]ping ok\nlivez check passed\n"),
        ("readyz", True, [], "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"),
        ("readyz", False, ["nope"], "ok"),
        (
            "readyz",
            True,
            ["shutdown", "nope"],
            (
                "[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
                'warn: some health checks cannot be excluded: no matches for "nope"\n'
                "readyz check passed\n"
            ),
        ),
        (
            "livez",
            True,
            ["b", "a"],
            (
                "[+]ping ok\n"
                'warn: some health checks cannot be excluded: no matches for "a", "b"\n'
                "livez check passed\n"
            ),
        ),
    ],
)
def test_a_healthy_endpoint_answers(
    endpoint: str, verbose: bool, excluded: list[str], body: str
) -> None:
    answer = checks().answer(endpoint, verbose=verbose, excluded=excluded)
    assert (answer.healthy, answer.body) == (True, body)


@pytest.mark.parametrize("check", [fails, raises])
@pytest.mark.parametrize("verbose", [True, False])
def test_a_failure_is_always_verbose_and_withholds_its_reason(check: Check, verbose: bool) -> None:
    answer = checks(check).answer("readyz", verbose=verbose)
    assert not answer.healthy
    assert answer.body == (
        "[-]leaderElection failed: reason withheld\n"
        "[+]shutdown ok\n"
        "[+]sched-handler-sync ok\n"
        "readyz check failed\n"
    )


def test_an_excluded_failure_does_not_count() -> None:
    answer = checks(sync=fails).answer("readyz", excluded=["sched-handler-sync"])
    assert (answer.healthy, answer.body) == (True, "ok")


def test_liveness_does_not_depend_on_the_lease() -> None:
    assert checks(fails).answer("livez").healthy


@pytest.mark.parametrize(
    ("check", "healthy", "body"),
    [
        (passes, True, "ok"),
        (fails, False, "internal server error: no lease for 36 s\n"),
        (raises, False, "internal server error: broken check\n"),
    ],
)
def test_a_single_check_gives_its_reason(check: Check, healthy: bool, body: str) -> None:
    answer = checks(check).answer_one("readyz", "leaderElection")
    assert answer is not None
    assert (answer.healthy, answer.body) == (healthy, body)


def test_a_check_that_does_not_exist_is_not_answered() -> None:
    assert checks().answer_one("livez", "shutdown") is None


def test_a_check_may_stand_at_an_endpoint_once() -> None:
    found = checks()
    with pytest.raises(ValueError, match="/readyz has a check named 'shutdown' already"):
        found.add("shutdown", passes, ["readyz"])
    with pytest.raises(ValueError, match="no health endpoint 'startupz'"):
        found.add("x", passes, ["startupz"])


def test_results_become_service_level_indicators() -> None:
    slis = HealthSlis()
    ready: list[str | None] = [None]
    found = scheduler_checks(shutdown=passes, handler_sync=lambda: ready[0], observer=slis)
    found.answer("readyz")
    ready[0] = "lists are missing"
    found.answer("readyz", excluded=["shutdown"])
    text = slis.exposition()[0].decode()
    total = "kubernetes_healthchecks_total"
    for line in (
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0.0',
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 1.0',
        f'{total}{{name="sched-handler-sync",status="error",type="readyz"}} 1.0',
        f'{total}{{name="sched-handler-sync",status="success",type="readyz"}} 1.0',
        f'{total}{{name="shutdown",status="success",type="readyz"}} 1.0',
    ):
        assert line in text.splitlines()


def test_an_advisory_check_is_shown_and_changes_nothing_else() -> None:
    found = scheduler_checks(shutdown=passes, handler_sync=passes, advisory={"extra": fails})
    assert found.answer("readyz").healthy
    answer = found.answer("readyz", verbose=True)
    assert answer.healthy
    assert "[!]extra degraded" in answer.body
    assert "lease" not in answer.body, "the reason is for those who may ask for the check alone"
    alone = found.answer_one("readyz", "extra")
    assert alone is not None
    assert (alone.healthy, alone.body) == (False, "internal server error: no lease for 36 s\n")
    assert "extra" not in found.names("livez")
