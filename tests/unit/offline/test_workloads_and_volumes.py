"""Workloads in files, and volumes that controllers bind and provision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler import offline

ZONE = "topology.kubernetes.io/zone"


def storage_class(provisioner: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "disk"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "local"},
    "spec": {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
                ]
            }
        },
    },
    "status": {"phase": "Available"},
}
USER = offline.pod(
    "user", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
)


def zones(world: offline.World) -> None:
    for zone in ("a", "b"):
        world.add_nodes(offline.node(zone, labels={ZONE: zone}))


def test_a_claim_is_bound_to_the_volume_that_the_scheduler_reserved() -> None:
    with offline.World() as world:
        zones(world)
        world.add_all([storage_class("kubernetes.io/no-provisioner"), CLAIM, VOLUME])
        world.add_pods(USER)
        (placed,) = world.schedule().placed
        assert (placed.node, placed.time) == ("b", 0.0)
        claim = world._assembly.tables.get("persistentvolumeclaims", "data", "default")
        assert claim is not None
        assert (claim.spec.volume_name, claim.status.phase) == ("local", "Bound")


def test_a_volume_is_provisioned_in_the_zone_of_the_chosen_node_and_keeps_pods_there() -> None:
    with offline.World() as world:
        zones(world)
        world.add_all([storage_class("disk.example.com"), CLAIM])
        world.add_pods(USER)
        (placed,) = world.schedule().placed
        world.remove("Pod", "user")
        world.cordon(placed.node)
        world.add_pods(USER)
        (waiting,) = world.schedule().waiting
        assert "PersistentVolume's node affinity" in waiting.reason
        world.cordon(placed.node, unschedulable=False)
        assert [each.node for each in world.schedule().placed] == [placed.node]


def test_a_volume_is_provisioned_for_a_claim_whose_node_was_selected_before() -> None:
    selected = {"annotations": {"volume.kubernetes.io/selected-node": "a"}}
    with offline.World() as world:
        zones(world)
        claim = {**CLAIM, "metadata": CLAIM["metadata"] | selected}
        world.add_all([storage_class("disk.example.com"), claim])
        world.add_pods(USER)
        (placed,) = world.schedule().placed
        assert (placed.node, placed.time) == ("a", 0.0)


def test_a_claim_that_nobody_provisions_holds_its_pod() -> None:
    with offline.World() as world:
        zones(world)
        world.add_all([storage_class("kubernetes.io/no-provisioner"), CLAIM])
        world.add_pods(USER)
        (waiting,) = world.schedule().waiting
        assert waiting.plugins == ("VolumeBinding",)


def test_a_workload_is_read_from_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,duration,template,count\n0,10,small,2\n5.5,,small,\n")
    arrivals = offline.read_csv(path, {"small": offline.pod(cpu=1)})
    assert [(each.time, each.duration, each.count) for each in arrivals] == [
        (0.0, 10.0, 2),
        (5.5, None, 1),
    ]
    with offline.World() as world:
        world.add_nodes(offline.node())
        result = world.run(workload=arrivals)
        assert [each.pod for each in result.placed] == [
            "default/small-2-0",
            "default/small-2-1",
            "default/small-3",
        ]
        assert (result.finished, list(world.placements())) == (2, ["default/small-3"])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("arrival,count\n1,1\n", "jobs.csv:1: column template is missing"),
        ("arrival,template\nsoon,small\n", "jobs.csv:2: arrival is 'soon'"),
        ("arrival,template\n-1,small\n", "jobs.csv:2: arrival is '-1'"),
        ("arrival,template\n1e308,small\n", "jobs.csv:2: arrival is '1e308'; give at most 10"),
        ("arrival,template\n1,large\n", "jobs.csv:2: template 'large' is unknown; known are small"),
        ("arrival,template,duration\n1,small,inf\n", "jobs.csv:2: duration is 'inf'"),
        ("arrival,template,count\n1,small,1.5\n", "jobs.csv:2: count is '1.5'; give a whole"),
        ("arrival;template\n1;small\n", "jobs.csv:1: columns are separated by commas here, not"),
        ("arrival\ttemplate\n1\tsmall\n", "by commas here, not by '\\\\t'$"),
        ("arrival,template,cout\n1,small,2\n", "'cout' is not read; did you mean count[?]$"),
        ("arrival,template,cpu\n1,small,2\n", "'cpu' is not read: requests are those of the"),
        ("arrival,template,Memory\n1,small,2\n", "'Memory' is not read: requests are those"),
        (
            "arrival,template,replicas\n1,small,2\n",
            "'replicas' is not read: did you mean count[?]$",
        ),
        ("arrival,template,x\n1,small,2\n", "'x' is not read: remove it; known are arrival,"),
        ('arrival,template\n1,small\n2,"small\n3,small\n', "jobs.csv:3: not CSV from here on: "),
        ('arrival,template\n1,"sm\nall"\n', "jobs.csv:2: template 'sm.nall' is unknown"),
        ("arrival,template\n5,small\nx,small\n", "jobs.csv:3: arrival is 'x'; [^\\n]*$"),
    ],
)
def test_a_bad_workload_is_named_with_its_line(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(content)
    with pytest.raises(offline.WorldError, match=text):
        offline.read_csv(path, {"small": offline.pod()})


def test_all_faults_of_a_workload_are_listed_and_of_very_many_the_first(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,template,count\nsoon,large,2\n1,small,1\n2,small,-1\n")
    with pytest.raises(offline.WorldError) as caught:
        offline.read_csv(path, {"small": offline.pod()})
    assert [each.partition(" is")[0] for each in str(caught.value).splitlines()] == [
        f"{path}:2: template 'large'",
        f"{path}:2: arrival",
        f"{path}:4: count",
    ]
    path.write_text("arrival,template\n" + "x,small\n" * 180)
    with pytest.raises(offline.WorldError) as caught:
        offline.read_csv(path, {"small": offline.pod()})
    assert str(caught.value).splitlines()[-1] == "and 80 more"


def test_arrivals_of_one_template_have_names_of_their_own() -> None:
    template = offline.pod("job", cpu=1)
    arrivals = [
        offline.Arrival(0.0, template, name="first"),
        offline.Arrival(1.0, template, duration=5.0),
        offline.Arrival(2.0, template),
        offline.Arrival(10.0, template, count=2, name="pair"),
    ]
    with offline.World() as world:
        world.add_nodes(offline.node(cpu=8))
        assert [each.pod for each in world.run(workload=arrivals).placed] == [
            "default/first",
            "default/job",
            "default/job-0",
            "default/pair-0",
            "default/pair-1",
        ]


def test_a_bad_taint_is_an_error() -> None:
    with pytest.raises(ValueError, match="give key=value:Effect"):
        offline.node(taints=("gpu",))


def test_a_workload_is_read_from_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(
        '{"arrival": 0, "template": "small", "count": 2}\n\n'
        '{"arrival": "1.5m", "template": "small", "duration": 10}\n'
    )
    arrivals = offline.read_csv(path, {"small": offline.pod()})
    assert [(each.time, each.duration, each.count) for each in arrivals] == [
        (0.0, None, 2),
        (90.0, 10.0, 1),
    ]


def test_faults_of_lines_of_json_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    lines = [
        '{"arrival": 5, "template": "small"',
        "[]",
        '{"arrival": true, "template": 7, "price": 1}',
        '{"template": "small", "count": -1}',
        "[" * 5000,
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(offline.WorldError) as caught:
        offline.read_csv(path, {"small": offline.pod()})
    found = [each.removeprefix(f"{path}:") for each in str(caught.value).splitlines()]
    assert [each[:28] for each in found] == [
        "1: not JSON: Input data was ",
        "2: expected a JSON object, g",
        "3: column 'price' is not rea",
        "3: template is 7; give a tex",
        "3: template '' is unknown; k",
        "3: arrival is True; give a n",
        "4: column arrival is missing",
        "4: count is -1; give a whole",
        "5: not JSON: maximum recursi",
    ]


def test_rows_that_are_not_in_order_of_arrival_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,template\n5,small\n4m,small\n90s,small\n")
    with pytest.raises(offline.WorldError, match=r"jobs.csv:4: arrival is before .* 240; sort"):
        offline.read_csv(path, {"small": offline.pod()})
