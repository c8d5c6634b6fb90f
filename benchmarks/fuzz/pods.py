"""Random pods: those that run already and those that come in."""

from __future__ import annotations

from typing import Any

from benchmarks.fuzz.drawing import APPS, IMAGES, PROFILES_OF, ZONES, Draw
from benchmarks.fuzz.profiles import DEFAULT, HOSTNAME, ZONE
from benchmarks.fuzz.volumes import pod_volumes

Object = dict[str, Any]
_LATER = "DuringSchedulingIgnoredDuringExecution"


def pod(draw: Draw, name: str, nodes: int, *, incoming: bool) -> Object:
    """A pod without a place."""
    labels = draw.labels()
    spec: Object = {"containers": _containers(draw, incoming)}
    metadata: Object = {"name": name, "namespace": draw.space(), "labels": labels}
    if draw.chance(0.35):
        kind, version = draw.one(
            ("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")
        )
        metadata["ownerReferences"] = [
            {
                "apiVersion": version, "kind": kind, "name": draw.one(*APPS), "uid": "owner",
                "controller": True,
            }
        ]  # fmt: skip
    _constrain(draw, spec, nodes, incoming=incoming)
    if draw.dwells("preemption") or draw.chance(0.1):
        spec["priority"] = draw.one(0, 0, 1, 5, 10, 10, 100, -5, -(2**31))
        if incoming:
            spec["priority"] = draw.one(0, 5, 10, 50, 1000, 2**31 - 1)
            if draw.chance(0.08):
                spec["preemptionPolicy"] = "Never"
    if incoming:
        spec["schedulerName"] = draw.one(*PROFILES_OF.get(draw.family, (DEFAULT,)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _constrain(draw: Draw, spec: Object, nodes: int, *, incoming: bool) -> None:
    """Whatever makes one node differ from another for the pod."""
    if draw.dwells("resources") or draw.chance(draw.about("ports") / 3):
        _resources(draw, spec)
    if draw.dwells("taints"):
        spec["tolerations"] = [_toleration(draw) for _ in range(draw.number(0, 3))]
    if draw.dwells("nodeaffinity"):
        _node_affinity(draw, spec, nodes)
    if draw.dwells("interpod"):
        _pod_affinity(draw, spec)
    if draw.dwells("spread"):
        constraints: dict[tuple[str, str], Object] = {}
        for _ in range(draw.number(1 if incoming else 0, 3)):
            each = _constraint(draw)
            constraints[each["topologyKey"], each["whenUnsatisfiable"]] = each
        spec["topologySpreadConstraints"] = list(constraints.values())
    if draw.dwells("volumes"):
        spec["volumes"] = pod_volumes(draw)
    if draw.dwells("features"):
        _features(draw, spec)


def running(draw: Draw, index: int, nodes: int) -> Object:
    """A pod on a node; some are terminating, finished, or on a node that was deleted."""
    found = pod(draw, f"pod-{index:03d}", nodes, incoming=False)
    found["spec"]["nodeName"] = f"node-{draw.number(0, nodes - 1 + draw.chance(0.02)):02d}"
    day, hour = draw.number(1, 4), draw.number(0, 4)
    found["status"] = {
        "phase": draw.one("Running", "Running", "Running", "Running", "Pending", "Succeeded"),
        # No two alike: kube-scheduler keeps victims of one priority and start time in the order in
        # which their node holds them, which nothing outside it determines.
        "startTime": f"2026-10-{day:02d}T0{hour}:{index // 60 % 60:02d}:{index % 60:02d}Z",
    }
    if found["status"]["phase"] == "Succeeded":
        # kube-scheduler forgets the ports of a pod that ends, even if another one has them too.
        for kind in ("containers", "initContainers"):
            for container in found["spec"].get(kind, ()):
                container.pop("ports", None)
    if draw.chance(0.08):
        found["status"].pop("startTime")
    if draw.chance(0.1):
        found["metadata"]["deletionTimestamp"] = "now"
    if draw.dwells("resources") and found["status"]["phase"] == "Running":
        found["status"].update(_resizing(draw, found["spec"]))
    return found


def _resizing(draw: Draw, spec: Object) -> Object:
    """Return a container status as a kubelet reports it during a resize."""
    statuses = []
    for container in spec["containers"]:
        status: Object = {
            "name": container["name"], "image": "i", "imageID": "i", "ready": True,
            "restartCount": 0, "state": {"running": {}},
        }  # fmt: skip
        if draw.chance(0.7):
            status["allocatedResources"] = draw.amounts(rich=False)
        if draw.chance(0.7):
            status["resources"] = {"requests": draw.amounts(rich=False)}
        statuses.append(status)
    found: Object = {"containerStatuses": statuses}
    if draw.chance(0.4):
        kind, reason = draw.one(
            ("PodResizePending", "Infeasible"), ("PodResizePending", "Deferred"),
            ("PodResizeInProgress", ""),
        )  # fmt: skip
        found["conditions"] = [{"type": kind, "status": "True", "reason": reason}]
    return found


def _containers(draw: Draw, incoming: bool) -> list[Object]:
    found = []
    for index in range(draw.one(1, 1, 1, 2)):
        container: Object = {
            "name": f"c{index}",
            "image": draw.one(*IMAGES) if draw.dwells("images") else "registry.io/app",
            "resources": {"requests": draw.amounts(draw.dwells("resources"))},
        }
        _limit(container)
        if draw.dwells("ports"):
            container["ports"] = _ports(draw)
        found.append(container)
    if draw.crowded and not incoming:
        found[0]["resources"]["requests"] = {"cpu": draw.one("300m", "500m", "900m", "1500m")}
    elif draw.dwells("preemption") and incoming:
        found[0]["resources"]["requests"] = {
            "cpu": draw.one("500m", "1", "2", "3", "4", "4"),
            "memory": draw.one("512Mi", "2Gi", "4Gi"),
        }
        found[0]["resources"].pop("limits", None)
    return found


def _limit(container: Object) -> None:
    """Extended resources and huge pages need limits equal to their requests."""
    requests = container["resources"]["requests"]
    limits = {k: v for k, v in requests.items() if "/" in k or k.startswith("huge")}
    if limits:
        container["resources"]["limits"] = limits


def _ports(draw: Draw) -> list[Object]:
    found: dict[tuple[Any, ...], Object] = {}
    for _ in range(draw.number(1, 2)):
        number = draw.one(0, 80, 80, 443)
        port: Object = {"containerPort": number or 81}
        if number:
            port["hostPort"] = number
        if draw.chance(0.4):
            port["hostIP"] = draw.one("0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")  # noqa: S104
        if draw.chance(0.3):
            port["protocol"] = draw.one("TCP", "UDP", "SCTP")
        found[number, port.get("hostIP"), port.get("protocol", "TCP")] = port
    return list(found.values())


def _resources(draw: Draw, spec: Object) -> None:
    starters = []
    for index in range(draw.one(0, 1, 1, 2, 3)):
        container: Object = {
            "name": f"i{index}", "image": draw.one(*IMAGES),
            "resources": {"requests": draw.amounts(rich=True)},
        }  # fmt: skip
        if draw.chance(0.4):
            container["restartPolicy"] = "Always"
        _limit(container)
        if draw.dwells("ports"):
            container["ports"] = _ports(draw)
        starters.append(container)
    if starters:
        spec["initContainers"] = starters
    if draw.chance(0.2):
        spec["overhead"] = {"cpu": draw.one("0", "50m", "250m"), "memory": "100Mi"}
    if draw.chance(0.3):
        level: Object = {}
        if draw.chance(0.7):
            level["cpu"] = draw.one("4", "5", "12")
        if draw.chance(0.7):
            level["memory"] = draw.one("8Gi", "12Gi", "30Gi")
        if level:
            spec["resources"] = {"requests": level}


def _toleration(draw: Draw) -> Object:
    found: Object = {}
    if draw.chance(0.85):
        found["key"] = draw.one("dedicated", "spot", "node.kubernetes.io/unschedulable")
    if draw.chance(0.5) or "key" not in found:
        found["operator"] = "Exists"
    else:
        found["value"] = draw.one("x", "y", "")
        if draw.chance(0.5):
            found["operator"] = "Equal"
    if draw.chance(0.6):
        found["effect"] = draw.one("NoSchedule", "PreferNoSchedule", "NoExecute")
        if found["effect"] == "NoExecute" and draw.chance(0.4):
            found["tolerationSeconds"] = draw.one(0, 30)
    return found


def _node_affinity(draw: Draw, spec: Object, nodes: int) -> None:
    if draw.chance(0.4):
        spec["nodeSelector"] = draw.one(
            {"disk": "ssd"}, {"disk": "hdd"}, {ZONE: "a"}, {"rack": ""}, {"gen": "3"}, {}
        )
    affinity: Object = {}
    if draw.chance(0.6):
        terms = [_node_term(draw, nodes) for _ in range(draw.number(1, 3))]
        affinity[f"required{_LATER}"] = {"nodeSelectorTerms": terms}
    if draw.chance(0.6):
        affinity[f"preferred{_LATER}"] = [
            {"weight": draw.number(1, 100), "preference": _node_term(draw, nodes)}
            for _ in range(draw.number(1, 3))
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def _node_term(draw: Draw, nodes: int) -> Object:
    term: Object = {}
    if draw.chance(0.9):
        term["matchExpressions"] = [_requirement(draw, nodes) for _ in range(draw.number(0, 2))]
    if draw.chance(0.2):
        names = [f"node-{draw.number(0, nodes):02d}"]
        operator = draw.one("In", "In", "NotIn")
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": names}]
    return term


def _requirement(draw: Draw, nodes: int) -> Object:
    key = draw.one("disk", ZONE, HOSTNAME, "gen", "gen", "rack", "nosuch")
    operator = draw.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    if key == "gen":
        operator = draw.one("Gt", "Lt", "Gt", "Lt", "In", "Exists")
    found: Object = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        found["values"] = [
            draw.one("0", "1", "1", "3", "2", "-2", "007", "9223372036854775807", "abc", "x" * 64)
        ]
    elif operator in ("In", "NotIn"):
        pool = {
            "disk": ["ssd", "hdd", "tape"], ZONE: list(ZONES), "gen": ["1", "3", "x"],
            HOSTNAME: [f"node-{index:02d}" for index in range(nodes)],
        }.get(key, ["", "r1", "r2"])  # fmt: skip
        found["values"] = draw.some(pool, 3, 1)
    return found


def _pod_affinity(draw: Draw, spec: Object) -> None:
    affinity = spec.setdefault("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        found: Object = {}
        if draw.chance(0.35):
            found[f"required{_LATER}"] = [_term(draw) for _ in range(draw.one(1, 1, 2))]
        if draw.chance(0.45):
            found[f"preferred{_LATER}"] = [
                {"weight": draw.number(1, 100), "podAffinityTerm": _term(draw)}
                for _ in range(draw.one(1, 1, 2))
            ]
        if found:
            affinity[kind] = found


def _term(draw: Draw) -> Object:
    term: Object = {"topologyKey": draw.topology()}
    selector = draw.selector()
    if selector is not None:
        term["labelSelector"] = selector
    if draw.chance(0.25):
        term["namespaces"] = draw.some(["default", "prod", "dev", "nosuch"], 2)
    if draw.chance(0.35):
        # Negative requirements alone select every namespace in kube-scheduler, kubernetes#141526.
        any_name = {"key": "kubernetes.io/metadata.name", "operator": "Exists"}
        term["namespaceSelector"] = draw.one(
            {},
            {"matchLabels": {"env": "live"}},
            {"matchExpressions": [any_name, draw.expression("env", ["live", "test"])]},
            {"matchExpressions": [any_name, draw.expression("team", ["red", "blue"])]},
            {
                "matchExpressions": [
                    any_name,
                    {"key": "env", "operator": "NotIn", "values": ["live"]},
                ]
            },
        )
    if selector is not None:
        keys = draw.some(["version", "nosuch", "tier"], 1)
        named = str(selector)
        keys = [key for key in keys if key not in named]
        if keys and draw.chance(0.4):
            term[draw.one("matchLabelKeys", "mismatchLabelKeys")] = keys
    return term


def _constraint(draw: Draw) -> Object:
    found: Object = {
        "maxSkew": draw.one(1, 1, 2, 3),
        "topologyKey": draw.topology(),
        "whenUnsatisfiable": draw.one("DoNotSchedule", "ScheduleAnyway"),
    }
    selector = draw.selector()
    if selector is not None:
        found["labelSelector"] = selector
        if draw.chance(0.3) and "version" not in str(selector):
            found["matchLabelKeys"] = draw.one(["version"], ["nosuch"], ["version", "nosuch"])
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw.chance(0.3):
        found["minDomains"] = draw.number(1, 5)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.chance(0.3):
            found[policy] = draw.one("Honor", "Ignore")
    return found


def _features(draw: Draw, spec: Object) -> None:
    if draw.chance(0.3):
        spec["hostNetwork"] = True
        for index, container in enumerate(spec["containers"]):
            container["ports"] = [{"containerPort": draw.one(80, 443) + index}]
    if draw.chance(0.3):
        spec["containers"][0]["restartPolicyRules"] = [
            {
                "action": draw.one("Restart", "RestartAllContainers"),
                "exitCodes": {"operator": "In", "values": [42]},
            }
        ]
        spec["containers"][0]["restartPolicy"] = "Never"
