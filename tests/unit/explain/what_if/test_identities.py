"""No question takes a live pod's place: identities are made anew, and cannot be set."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.records import Change
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.trial import WhatIfTrial
from tests.unit.explain.what_if.live_state import live_state
from tests.unit.explain.what_if.test_asker import asked_world, question

NODE = offline.node("n", cpu=4)
OTHER = offline.node("m", cpu=4)
WEB = offline.pod("web", cpu=3, node="n")
BIG = offline.pod("big", cpu=8)


def uid_of(world: offline.World, name: str) -> str:
    return str(world._assembly.tables.stores["pods"].by_keys()[f"default/{name}"].uid)


@pytest.mark.parametrize("victim", ["web", "big"])
@pytest.mark.parametrize("node", ["n", "m", "", "unknown"])
async def test_a_pod_with_the_uid_of_another_gets_one_of_its_own(victim: str, node: str) -> None:
    with asked_world(NODE, OTHER, WEB, BIG) as (world, _, asker):
        before = live_state(world)
        pod = offline.pod("twin", cpu=1, node=node) if node else offline.pod("twin", cpu=1)
        pod["metadata"]["uid"] = uid_of(world, victim)
        add = {"action": "add", "kind": "Pod", "name": "default/twin", "value": pod}
        await asker.what_if(question(pod="default/big", changes=[add]))
        await asker.what_if(question(manifest=pod, copies=3))
        world._assembly.state.cache.validate()
        assert live_state(world) == before


@pytest.mark.parametrize("kind", ["Pod", "Node"])
@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("/metadata/uid", "{other}", "uid"),
        ("/metadata/uid", "made-up", "uid"),
        ("/metadata/name", "big", "name"),
        ("/metadata/namespace", "other", "namespace"),
        ("/metadata", {"name": "else"}, "name"),
    ],
)
async def test_setting_an_identity_is_refused(kind: str, path: str, value: Any, field: str) -> None:
    with asked_world(NODE, OTHER, WEB, BIG) as (world, _, asker):
        before = live_state(world)
        if value == "{other}":
            value = uid_of(world, "big")
        name = "default/web" if kind == "Pod" else "n"
        change = {"action": "set", "kind": kind, "name": name, "path": path, "value": value}
        with pytest.raises(ChangeError, match=f"would change metadata.{field}"):
            await asker.what_if(question(pod="default/big", changes=[change]))
        world._assembly.state.cache.validate()
        assert live_state(world) == before


async def test_the_identity_of_the_pod_asked_about_cannot_be_set() -> None:
    with asked_world(NODE, WEB, BIG) as (world, _, asker):
        for path, value in (("/metadata/uid", uid_of(world, "web")), ("/metadata/name", "web")):
            with pytest.raises(ChangeError, match="would change metadata"):
                await asker.what_if(question(pod="default/big", fields={path: value}))


async def test_all_metadata_may_be_set_without_the_uid() -> None:
    metadata = {"name": "big", "namespace": "default", "labels": {"a": "b"}}
    with asked_world(NODE, WEB, BIG) as (_, _, asker):
        found = await asker.what_if(question(pod="default/big", fields={"/metadata": metadata}))
    assert found.pod == "default/big"


@pytest.mark.parametrize(("kind", "name"), [("Pod", "default/web"), ("Node", "n")])
async def test_adding_what_exists_is_refused(kind: str, name: str) -> None:
    value = {"metadata": {"name": name.rpartition("/")[2]}}
    add = {"action": "add", "kind": kind, "name": name, "value": value}
    with (
        asked_world(NODE, WEB, BIG) as (_, _, asker),
        pytest.raises(ChangeError, match="exists already; give another name"),
    ):
        await asker.what_if(question(pod="default/big", changes=[add]))


async def test_a_manifest_with_the_name_of_a_bound_pod_does_not_get_its_room() -> None:
    with asked_world(NODE, WEB) as (_, _, asker):
        found = await asker.what_if(question(manifest=offline.pod("web", cpu=3)))
    assert (found.fits, found.pod) == (False, "default/web-2")


async def test_a_copy_with_the_name_of_a_bound_pod_does_not_get_its_room() -> None:
    bound = offline.pod("small-copy-1", cpu=2, node="n")
    with asked_world(NODE, bound) as (world, _, asker):
        before = live_state(world)
        found = await asker.what_if(question(manifest=offline.pod("small", cpu=1), copies=4))
        assert live_state(world) == before
    assert found.copies == 2


async def test_a_pod_that_gets_a_node_meanwhile_is_not_placed_twice() -> None:
    with asked_world(NODE, BIG) as (world, gate, asker):

        def shrink() -> None:
            if gate.slices == 2:
                world.add(offline.pod("big", cpu=1))
                world.schedule()

        gate.between = shrink
        with pytest.raises(ChangeError, match="default/big is on n"):
            await asker.what_if(question(pod="default/big"))
        world._assembly.state.cache.validate()


async def test_a_pod_to_schedule_cannot_be_given_a_node() -> None:
    with asked_world(NODE, BIG) as (world, _, asker):
        before = live_state(world)
        with pytest.raises(ChangeError, match="do not set nodeName"):
            await asker.what_if(question(pod="default/big", fields={"/spec/nodeName": "n"}))
        assert live_state(world) == before


def test_a_typed_pod_with_the_uid_of_a_bound_one_is_refused() -> None:
    with offline.World() as world:
        world.add(NODE)
        world.add(WEB)
        world.schedule()
        before = live_state(world)
        twin = offline.pod("twin", node="n")
        twin["metadata"]["uid"] = uid_of(world, "web")
        with world.trial() as trial, pytest.raises(offline.WorldError, match="default/web"):
            trial.add(twin)
        assert live_state(world) == before


def test_changes_are_taken_back_in_a_trial_that_raises() -> None:
    with offline.World() as world:
        world.add(NODE)
        world.add(WEB)
        world.schedule()
        before = live_state(world)
        gone = Change("remove", "Pod", "default/web")
        with pytest.raises(ChangeError), WhatIfTrial(world._assembly.trial_parts()) as trial:
            trial.apply([Change("remove", "Node", "n"), gone, gone])
        assert live_state(world) == before
