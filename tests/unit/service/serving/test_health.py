"""The texts of the health endpoints, as returned by a running kube-scheduler v1.36.2."""

from __future__ import annotations

import re

import pytest

from scheduler.service.serving.health import ENDPOINTS, Check, HealthChecks, scheduler_checks


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


def names(checks: HealthChecks, endpoint: str) -> list[str]:
    return re.findall(r"^\[\+\](\S+) ok$", checks.run(endpoint, verbose=True).body, re.MULTILINE)


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
    assert {each: " ".join(names(found, each)) for each in ENDPOINTS} == expected


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
def test_a_healthy_endpoint_passes(
    endpoint: str, verbose: bool, excluded: list[str], body: str
) -> None:
    result = checks().run(endpoint, verbose=verbose, excluded=excluded)
    assert (result.healthy, result.body) == (True, body)


@pytest.mark.parametrize("check", [fails, raises])
@pytest.mark.parametrize("verbose", [True, False])
def test_a_failure_is_always_verbose_and_withholds_its_reason(check: Check, verbose: bool) -> None:
    result = checks(check).run("readyz", verbose=verbose)
    assert not result.healthy
    assert result.body == (
        "[-]leaderElection failed: reason withheld\n"
        "[+]shutdown ok\n"
        "[+]sched-handler-sync ok\n"
        "readyz check failed\n"
    )


def test_missing_permissions_are_disclosed_with_their_rule() -> None:
    missing: list[str | None] = ["missing permissions: create pods/binding"]
    late: list[str | None] = [None]
    found = scheduler_checks(
        shutdown=passes,
        handler_sync=passes,
        permissions=lambda: missing[0],
        permissions_alive=lambda: late[0],
    )
    ready = found.run("readyz")
    assert not ready.healthy
    assert "[-]permissions failed: missing permissions: create pods/binding\n" in ready.body
    assert found.run("livez").healthy
    assert found.run("healthz").healthy
    late[0] = missing[0]
    assert "[-]permissions failed: missing permissions" in found.run("livez").body
    assert found.run("healthz").healthy
    missing[0] = late[0] = None
    assert all(found.run(endpoint).healthy for endpoint in ENDPOINTS)


def test_an_excluded_failure_does_not_count() -> None:
    result = checks(sync=fails).run("readyz", excluded=["sched-handler-sync"])
    assert (result.healthy, result.body) == (True, "ok")


def test_liveness_does_not_depend_on_the_lease() -> None:
    assert checks(fails).run("livez").healthy


@pytest.mark.parametrize(
    ("check", "healthy", "body"),
    [
        (passes, True, "ok"),
        (fails, False, "internal server error: no lease for 36 s\n"),
        (raises, False, "internal server error: broken check\n"),
    ],
)
def test_a_single_check_gives_its_reason(check: Check, healthy: bool, body: str) -> None:
    result = checks(check).run_one("readyz", "leaderElection")
    assert result is not None
    assert (result.healthy, result.body) == (healthy, body)


def test_a_check_that_does_not_exist_has_no_result() -> None:
    assert checks().run_one("livez", "shutdown") is None


def test_results_become_service_level_indicators() -> None:
    ready: list[str | None] = [None]
    found = scheduler_checks(shutdown=passes, handler_sync=lambda: ready[0])
    found.run("readyz")
    ready[0] = "lists are missing"
    found.run("readyz", excluded=["shutdown"])
    text = found.slis.exposition()[0].decode()
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
    assert found.run("readyz").healthy
    result = found.run("readyz", verbose=True)
    assert result.healthy
    assert "[!]extra degraded" in result.body
    assert "lease" not in result.body, "the reason is for those who may ask for the check alone"
    alone = found.run_one("readyz", "extra")
    assert alone is not None
    assert (alone.healthy, alone.body) == (False, "internal server error: no lease for 36 s\n")
    assert found.run_one("livez", "extra") is None
