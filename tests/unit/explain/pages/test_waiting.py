"""`/debug/waiting`: pending pods by owner and cause."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import msgspec
import pytest

from scheduler.api.meta import OwnerReference
from scheduler.api.pod import Pod
from scheduler.explain.owners import MAX_OWNER, owner_of
from scheduler.explain.pages.waiting import MAX_OTHERS, WaitingPages
from scheduler.explain.records import (
    Decision,
    DecisionResult,
    OtherScheduler,
    RejectionCount,
    WaitingPage,
)
from scheduler.service.serving.json_body import encode
from tests.unit.queue.doubles import SchedulingGatesDouble, World, make_pod

NO_CPU = "0/18 nodes are available: 18 Insufficient cpu."
HASH = "5f7d8c"


def owned(name: str, kind: str, owner: str, **changes: Any) -> Pod:
    """Return a pod with a controller."""
    pod = make_pod(name, **changes)
    pod.metadata.owner_references = (OwnerReference(kind=kind, name=owner, controller=True),)
    return pod


def web(number: int) -> Pod:
    """Return a pod of the Deployment `web`."""
    labels = {"pod-template-hash": HASH}
    return owned(f"web-{HASH}-{number}", "ReplicaSet", f"web-{HASH}", labels=labels)


class Pages:
    """A queue, and a page about it."""

    def __init__(self) -> None:
        self.world = World(SchedulingGatesDouble())
        self.decided: dict[str, Decision] = {}
        self.pages = WaitingPages(
            self.world.queue,
            clock=self.world.clock,
            leading=lambda: True,
            decisions=lambda namespace, name: [
                each for key, each in self.decided.items() if key == f"{namespace}/{name}"
            ],
        )

    def failed(self, *pods: Pod, message: str = NO_CPU) -> None:
        """Add pods whose first attempt failed."""
        for pod in pods:
            self.world.add(pod)
            info = self.world.pop()
            info.last_message = message
            self.world.fail(info, "NodeResourcesFit")
            self.world.clock.step(1.0)

    async def page(self, **query: str) -> WaitingPage:
        """Return the page as a client decodes it."""
        return msgspec.json.decode(encode(await self.pages.waiting(query)), type=WaitingPage)


async def test_pods_are_grouped_by_owner_and_cause() -> None:
    pages = Pages()
    pages.failed(web(1), web(2), owned("sort-x", "Job", "sort"))
    pages.world.queue.add(make_pod("alone", gates=["a"]))
    page = await pages.page()
    assert page.headline == "4 pods wait: 3 lack CPU, 1 is gated"
    assert [(each.text, each.pods) for each in page.causes] == [
        ("3 lack CPU", 3),
        ("1 is gated", 1),
    ]
    found = [(each.owner, each.cause, each.pods, each.pod) for each in page.groups]
    assert found == [
        ("Deployment/web", "lack CPU", 2, f"web-{HASH}-1"),
        ("Job/sort", "lack CPU", 1, "sort-x"),
        ("", "are gated", 1, "alone"),
    ]
    assert page.groups[0].text == NO_CPU
    assert "Plugin SchedulingGates does not let it be scheduled yet" in page.groups[2].text
    assert page.pods == []


async def test_the_sentence_of_a_group_is_that_of_the_command() -> None:
    pages = Pages()
    pages.failed(web(1))
    count = RejectionCount("NodeResourcesFit", "Unschedulable", "Insufficient cpu", 18, "wants 16")
    pages.decided[f"default/web-{HASH}-1"] = Decision(
        seq=1, pod="", uid=f"uid-web-{HASH}-1", profile="kubestow", attempt=1, time=0.0, queue="",
        event="", hint_plugin="", result=DecisionResult.UNSCHEDULABLE, node="", message=NO_CPU,
        nodes=18, evaluated=18, feasible=0, rejections=(count,),
    )  # fmt: skip
    (group,) = (await pages.page()).groups
    assert group.text == "None of 18 nodes fits: 18 lack CPU (wants 16)."


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ({"owner": "default/Deployment/web"}, 2),
        ({"cause": "are gated"}, 1),
        ({"words": "SORT job"}, 1),
        ({"namespace": "other"}, 0),
        ({"owner": "default/", "cause": "are gated"}, 1),
    ],
)
async def test_pods_are_selected(query: dict[str, str], selected: int) -> None:
    pages = Pages()
    pages.failed(web(1), web(2), owned("sort-x", "Job", "sort"))
    pages.world.queue.add(make_pod("alone", gates=["a"]))
    page = await pages.page(limit="500", **query)
    assert (page.selected, len(page.pods)) == (selected, selected)
    # The counts of all remain, so that another cause can be chosen.
    assert page.total == (0 if "namespace" in query else 4)


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("", "PodGroup/batch"),
        ("Deployment", "Deployment/web"),
        ("ReplicaSet", f"ReplicaSet/web-{HASH}"),
        ("PodGroup", "PodGroup/batch"),
    ],
)
def test_a_pod_has_the_owner_that_is_asked_for(kind: str, owner: str) -> None:
    pod = web(1)
    pod.metadata.labels["scheduling.x-k8s.io/pod-group"] = "batch"
    assert owner_of(pod, kind) == owner


@pytest.mark.parametrize(
    ("job", "owner"), [("nightly-29412345", "CronJob/nightly"), ("nightly-x", "")]
)
def test_a_pod_belongs_to_the_cron_job_of_its_job(job: str, owner: str) -> None:
    pod = owned("a", "Job", job)
    assert (owner_of(pod), owner_of(pod, "CronJob")) == (f"Job/{job}", owner)


async def test_pods_of_an_owner_that_have_a_node_are_counted() -> None:
    pages = Pages()
    pages.failed(web(1))
    elsewhere = web(7)
    elsewhere.metadata.namespace = "other"
    ends = web(4)
    ends.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    placed = [[web(2), web(3), ends], [make_pod("alone"), elsewhere]] * 30
    pages.pages = WaitingPages(
        pages.world.queue,
        clock=pages.world.clock,
        leading=lambda: True,
        on_nodes=lambda: placed,
    )
    page = await pages.page(owner="default/Deployment/web", placed="1")
    assert (page.selected, page.placed, page.ending) == (1, 90, 30)
    assert (await pages.page(owner="default/Deployment/web")).placed is None
    assert (await pages.page(placed="1")).placed is None


async def test_pods_of_an_owner_in_another_namespace_are_not_counted() -> None:
    pages = Pages()
    pages.pages = WaitingPages(
        pages.world.queue,
        clock=pages.world.clock,
        leading=lambda: True,
        on_nodes=lambda: [[web(1)]],
        pods=lambda: [web(1)],
    )
    asked = {"owner": "default/Deployment/web", "placed": "1"}
    page = await pages.page(namespace="default", **asked)
    assert (page.placed, [each.pods for each in page.others]) == (1, [1])
    page = await pages.page(namespace="other", **asked)
    assert (page.placed, page.others) == (None, [])


async def test_pods_of_an_owner_that_name_another_scheduler_are_counted_by_its_name() -> None:
    pages = Pages()
    named = {"kubestow": 3, "kubestw": 600, "default-scheduler": 2}
    numbers = count()
    pods = [make_pod("alone")]
    for name, number in named.items():
        for _ in range(number):
            pods.append(web(next(numbers)))
            pods[-1].spec.scheduler_name = name
    pods[-1].spec.node_name = "n1"
    pages.pages = WaitingPages(
        pages.world.queue,
        clock=pages.world.clock,
        leading=lambda: True,
        pods=lambda: pods,
        ours=lambda: {"kubestow"},
        nearest=lambda name: "kubestow" if name == "kubestw" else "",
    )
    page = await pages.page(owner="default/Deployment/web", placed="1")
    assert page.others == [
        OtherScheduler("kubestw", 600, 0, "kubestow"),
        OtherScheduler("default-scheduler", 2, 1),
    ]


async def test_few_names_of_other_schedulers_are_listed_and_long_ones_are_cut() -> None:
    pages = Pages()
    pods = [web(number) for number in range(1_000)]
    for number, pod in enumerate(pods):
        pod.spec.scheduler_name = f"{number:04}" + "x" * 1_000
    pages.pages = WaitingPages(
        pages.world.queue, clock=pages.world.clock, leading=lambda: True, pods=lambda: pods
    )
    page = await pages.page(owner="default/Deployment/web", placed="1")
    assert [len(each.name) for each in page.others] == [MAX_OWNER] * MAX_OTHERS


async def test_many_pods_are_counted_and_few_are_listed() -> None:
    pages = Pages()
    for number in range(1_200):
        pages.world.queue.add(owned(f"p{number}", "Job", f"job-{number}"))
    page = await pages.page(groups="3", limit="2")
    assert (page.total, page.group_total) == (1_200, 1_200)
    assert (len(page.groups), len(page.pods)) == (3, 2)
    with pytest.raises(ValueError, match="groups"):
        await pages.page(groups="1000000")


async def test_many_different_messages_are_read_in_many_slices() -> None:
    pages = Pages()
    for number in range(100):
        pages.failed(make_pod(f"p{number}"), message=f"{NO_CPU} {number}")
    other = 0

    async def works() -> None:
        nonlocal other
        while True:
            other += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(works(), name="other work")
    # Each step takes longer than a slice.
    pages.world.clock.monotonic = count(step=1.0).__next__  # type: ignore[method-assign]
    page = await pages.page()
    task.cancel()
    assert page.headline == "100 pods wait: all lack CPU"
    assert other > 10


def test_owners_are_named_as_people_name_them() -> None:
    assert owner_of(web(1)) == "Deployment/web"
    assert owner_of(owned("a", "ReplicaSet", "bare")) == "ReplicaSet/bare"
    assert owner_of(make_pod("a")) == ""
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    assert owner_of(owned("a", "Job", "train-1", labels=labels)) == "PodGroup/train"
    assert len(owner_of(owned("a", "k" * 9_999, "n" * 9_999))) == 253 + 1 + 253
