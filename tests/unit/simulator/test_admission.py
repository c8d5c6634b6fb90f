"""The order of mutating admission, and who is run again: as k8s.io/apiserver does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.admission import AdmissionRequest
from simulator.api import Api
from tests.unit.simulator.objects import pod


class Chain:
    """Records who is called; hooks may set a label."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.calls: list[str] = []

    def hook(self, name: str, label: str = "") -> Callable[[AdmissionRequest], None]:
        def call(request: AdmissionRequest) -> None:
            self.calls.append(name)
            if label:
                request.obj["metadata"].setdefault("labels", {})[label] = "set"

        return call

    def create(self) -> None:
        self.api.create(self.api.resources.of_kind("v1", "Pod"), "default", pod("p"))


@pytest.fixture
def chain(api: Api) -> Chain:
    return Chain(api)


def test_hooks_then_policies_then_webhooks(chain: Chain) -> None:
    admission = chain.api.admission
    admission.add("webhook", "webhook", chain.hook("webhook"), tables=["pods"])
    admission.add("policy", "policy", chain.hook("policy"), tables=["pods"])
    admission.add("mutating", "hook", chain.hook("hook"), tables=["pods"])
    chain.create()
    assert chain.calls == ["hook", "policy", "webhook"], "nothing changed, no hook is called again"


def test_what_ran_before_a_change_runs_once_more(chain: Chain) -> None:
    admission = chain.api.admission
    admission.add("mutating", "hook", chain.hook("hook"), tables=["pods"])
    admission.add("policy", "first", chain.hook("first"), tables=["pods"])
    admission.add("policy", "never", chain.hook("never"), tables=["pods"], if_needed=False)
    admission.add("webhook", "changes", chain.hook("changes", "x"), tables=["pods"], if_needed=True)
    admission.add("webhook", "after", chain.hook("after"), tables=["pods"], if_needed=True)
    chain.create()
    # A webhook with IfNeeded that came after the last change has seen it.
    assert chain.calls == ["hook", "first", "never", "changes", "after", "hook", "first"]


def test_a_change_in_the_second_round_begins_no_third(chain: Chain) -> None:
    def grow(request: AdmissionRequest) -> None:
        labels = request.obj["metadata"].setdefault("labels", {})
        labels[f"l{len(labels)}"] = "set"
        chain.calls.append("grow")

    for name in ("a", "b"):
        chain.api.admission.add("webhook", name, grow, tables=["pods"], if_needed=True)
    chain.create()
    # The first is called again because of the second, and that one because of the first's change.
    assert len(chain.calls) == 4


def test_a_policy_sees_what_an_earlier_one_did(chain: Chain) -> None:
    seen: list[bool] = []

    def look(request: AdmissionRequest) -> None:
        seen.append("x" in (request.obj["metadata"].get("labels") or {}))

    admission = chain.api.admission
    admission.add("policy", "changes", chain.hook("changes", "x"), tables=["pods"])
    admission.add("policy", "looks", look, tables=["pods"])
    chain.create()
    assert seen[0] is True


def test_a_removed_hook_is_not_called(chain: Chain) -> None:
    admission = chain.api.admission
    admission.add("policy", "p", chain.hook("p"), tables=["pods"])
    admission.add("webhook", "w", chain.hook("w"), tables=["pods"])
    admission.remove("p")
    admission.remove("w")
    chain.create()
    assert chain.calls == []
