"""Services found by label: the same as by a walk, and no walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from plugins.pod_topology_spread.services import ServiceSelectors
from scheduler.api import Service

_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))


def service(name: str, selector: Mapping[str, str] | None) -> Service:
    body = {"metadata": {"name": name}, "spec": {"selector": selector}}
    return msgspec.convert(body, Service)


def walked(services: Iterable[Service], labels: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in services:
        selector = each.spec.selector or {}
        if selector.items() <= labels.items():
            found |= selector
    return found


@given(st.lists(st.tuples(st.sampled_from("nm"), st.none() | _labels, _labels), max_size=12))
def test_services_that_come_one_by_one_are_found_as_by_a_walk(
    steps: list[tuple[str, dict[str, str] | None, dict[str, str]]],
) -> None:
    known = ServiceSelectors()
    services: dict[str, list[Service]] = {"n": [], "m": []}
    for number, (namespace, selector, labels) in enumerate(steps):
        services[namespace] = [*services[namespace], service(f"s{number}", selector)]
        for each, listed in services.items():
            assert known.merged(each, listed, labels) == walked(listed, labels)


def test_a_service_that_no_longer_selects_is_forgotten() -> None:
    known = ServiceSelectors()
    labels = {"a": "x", "b": "y"}
    assert known.merged("n", [service("s", {"a": "x"})], labels) == {"a": "x"}
    assert known.merged("n", [service("s", {"b": "y"})], labels) == {"b": "y"}
    assert known.merged("n", [], labels) == {}


def test_of_thousands_of_services_those_with_a_label_of_the_pod_are_looked_at() -> None:
    class Labels(dict[str, str]):
        looked_up = 0

        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            self.looked_up += 1
            return super().get(key, default)

    services = [service(f"s{index}", {"a": f"x{index}", "b": "y"}) for index in range(5_000)]
    labels = Labels({"a": "x7", "b": "y"})

    assert ServiceSelectors().merged("n", services, labels) == {"a": "x7", "b": "y"}
    assert labels.looked_up <= 2
