"""NodeAffinity: upstream's `node_affinity.go`, and its hints."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import NodeAffinity
from plugins.node_affinity import NodeAffinityArgs
from scheduler.api import Pod
from scheduler.cache import NodeTable
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    Code,
    ConfigurationError,
    CycleState,
    EventResource,
    PreFilterResult,
    Status,
)
from scheduler.framework.events import NODE_ADD
from tests.unit.api.objects import pinned, required
from tests.unit.plugins.clusters import (
    Cluster,
    final_scores,
    hint,
    node,
    pod,
    raw_scores,
    rejected,
)

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def labels(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


def name(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [expression("metadata.name", operator, *values)]}


def demanding(*terms: dict[str, Any], selector: dict[str, str] | None = None) -> Pod:
    return pod({"affinity": required(*terms), "nodeSelector": selector})


def preferring(*terms: tuple[int, dict[str, Any]]) -> Pod:
    listed = [{"weight": weight, "preference": preference} for weight, preference in terms]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": listed}}
    return pod({"affinity": affinity})


def added(*terms: dict[str, Any], preferred: tuple[tuple[int, dict[str, Any]], ...] = ()) -> Any:
    affinity: dict[str, Any] = {}
    if terms:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": list(terms)
        }
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": preference} for weight, preference in preferred
        ]
    return msgspec.convert({"addedAffinity": affinity}, NodeAffinityArgs)


FOO_BAR = {"foo": "bar"}


@pytest.mark.parametrize(
    ("subject", "node_labels", "matches"),
    [
        pytest.param(pod(), {}, True, id="no selector"),
        pytest.param(pod({"nodeSelector": FOO_BAR}), {}, False, id="map, no labels"),
        pytest.param(pod({"nodeSelector": FOO_BAR}), FOO_BAR, True, id="map, same labels"),
        pytest.param(
            pod({"nodeSelector": FOO_BAR}), {**FOO_BAR, "a": "b"}, True, id="map, superset"
        ),
        pytest.param(
            pod({"nodeSelector": {**FOO_BAR, "a": "b"}}), FOO_BAR, False, id="map, subset"
        ),
        pytest.param(
            demanding(labels(expression("foo", "In", "bar", "value2"))), FOO_BAR, True, id="In"
        ),
        pytest.param(
            demanding(labels(expression("foo", "In", *"abcdef", "bar"))),
            FOO_BAR,
            True,
            id="long In",
        ),
        pytest.param(
            demanding(labels(expression("v", "Gt", "0204"))), {"v": "0206"}, True, id="Gt"
        ),
        pytest.param(
            demanding(labels(expression("v", "Gt", "206"))), {"v": "206"}, False, id="Gt, equal"
        ),
        pytest.param(
            demanding(labels(expression("v", "Lt", "206"))), {"v": "206"}, False, id="Lt, equal"
        ),
        pytest.param(
            demanding(labels(expression("v", "Lt", "3"))), {"v": "-7"}, True, id="Lt, negative"
        ),
        pytest.param(
            demanding(labels(expression("v", "Lt", "3"))), {"v": "1.5"}, False, id="Lt, no integer"
        ),
        pytest.param(demanding(labels(expression("v", "Gt", "1"))), {}, False, id="Gt, no label"),
        pytest.param(
            demanding(labels(expression("v", "Gt", "-5"))),
            {"v": "1"},
            False,
            id="Gt, bad threshold",
        ),
        pytest.param(
            demanding(labels(expression("m", "NotIn", "a", "b"))), {"m": "c"}, True, id="NotIn"
        ),
        pytest.param(demanding(labels(expression("m", "NotIn", "a"))), {}, True, id="NotIn absent"),
        pytest.param(demanding(labels(expression("g", "Exists"))), {"g": "x"}, True, id="Exists"),
        pytest.param(
            demanding(labels(expression("g", "DoesNotExist"))), {}, True, id="DoesNotExist"
        ),
        pytest.param(demanding(), FOO_BAR, False, id="no terms match nothing"),
        pytest.param(demanding({}), FOO_BAR, False, id="an empty term matches nothing"),
        pytest.param(
            demanding(labels(expression("g", "Exists"), expression("g", "NotIn", "AMD"))),
            {"g": "NVIDIA"},
            True,
            id="expressions are ANDed, both hold",
        ),
        pytest.param(
            demanding(labels(expression("g", "Exists"), expression("g", "In", "AMD"))),
            {"g": "NVIDIA"},
            False,
            id="expressions are ANDed, one fails",
        ),
        pytest.param(
            demanding(labels(expression("x", "Exists")), labels(expression("foo", "Exists"))),
            FOO_BAR,
            True,
            id="terms are ORed",
        ),
        pytest.param(
            demanding(labels(expression("foo", "In", "bar")), selector={"x": "y"}),
            FOO_BAR,
            False,
            id="map and affinity must both hold",
        ),
        pytest.param(
            demanding(labels(expression("foo", "NotIn", "{{.bad.}}"))),
            {},
            False,
            id="an invalid value never matches",
        ),
        pytest.param(
            demanding(
                labels(expression("foo", "NotIn", "{{.bad.}}")), labels(expression("foo", "Exists"))
            ),
            FOO_BAR,
            True,
            id="an invalid term spoils no other",
        ),
        pytest.param(demanding(name("In", "n")), {}, True, id="name"),
        pytest.param(demanding(name("In", "other")), {}, False, id="another name"),
        pytest.param(demanding(name("NotIn", "n")), {}, False, id="name excluded"),
        pytest.param(
            demanding(name("In", "other"), labels(expression("foo", "Exists"))),
            FOO_BAR,
            True,
            id="name or labels",
        ),
        pytest.param(
            demanding({**name("In", "other"), **labels(expression("foo", "Exists"))}),
            FOO_BAR,
            False,
            id="name and labels",
        ),
        pytest.param(
            demanding(name("In", "n", "m")), {}, False, id="quirk: two names match nowhere"
        ),
        pytest.param(
            demanding({"matchFields": [expression("metadata.uid", "NotIn", "n")]}),
            {},
            True,
            id="other fields read as empty",
        ),
    ],
)
def test_filter(subject: Pod, node_labels: dict[str, str], matches: bool) -> None:
    cluster = Cluster([node("n", labels=node_labels)])

    found = rejected(NodeAffinity(None, cluster.handle()), cluster, subject)

    assert found == ({} if matches else {"n": (MISMATCH,)})


def test_a_term_that_cannot_be_parsed_is_named_in_the_message_but_not_in_the_reason() -> None:
    cluster = Cluster([node("n", labels=FOO_BAR)])
    subject = demanding(labels(expression("foo", "Gt", "text")), name("In", "other"))
    plugin = NodeAffinity(None, cluster.handle())
    state = CycleState()

    plugin.pre_filter(state, subject, cluster.table)

    assert rejected(plugin, cluster, subject) == {"n": (MISMATCH,)}
    assert state.failure_note({"NodeAffinity"}) == (
        " (nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "
        "\"text\": for 'Gt', 'Lt' operators, the value must be an integer)"
    )
    assert state.failure_note({"NodeResourcesFit"}) == ""


@pytest.mark.parametrize(
    ("term", "subject", "reason"),
    [
        pytest.param(name("In", "n"), pod({"nodeSelector": {"zone": "foo"}}), None, id="both"),
        pytest.param(name("In", "n"), pod({"nodeSelector": {"zone": "bar"}}), MISMATCH, id="pod's"),
        pytest.param(
            labels(expression("zone", "In", "bar")),
            pod({"nodeSelector": {"zone": "foo"}}),
            ENFORCED,
            id="the profile's",
        ),
        pytest.param(
            labels(expression("zone", "In", "bar")),
            pod({"nodeSelector": {"zone": "bar"}}),
            ENFORCED,
            id="neither: the profile's is told",
        ),
    ],
)
def test_added_affinity(term: dict[str, Any], subject: Pod, reason: str | None) -> None:
    cluster = Cluster([node("n", labels={"zone": "foo"})])
    plugin = NodeAffinity(added(term), cluster.handle())

    assert rejected(plugin, cluster, subject) == ({} if reason is None else {"n": (reason,)})


def test_a_pinned_pod_fits_its_node_only() -> None:
    cluster = Cluster([node("a"), node("b")])
    plugin = NodeAffinity(None, cluster.handle())
    subject = pod({"affinity": pinned("b")})

    assert subject.pin == "b"
    assert rejected(plugin, cluster, subject) == {"a": (MISMATCH,)}
    assert hint(plugin, NODE_ADD, subject, None, node("b"))
    assert not hint(plugin, NODE_ADD, subject, None, node("a"))


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod(), "skip", id="nothing demanded"),
        pytest.param(
            preferring((1, labels(expression("a", "Exists")))), "skip", id="preferred only"
        ),
        pytest.param(pod({"nodeSelector": FOO_BAR}), "all", id="nodeSelector"),
        pytest.param(pod({"nodeSelector": {}}), "all", id="an empty map does not skip"),
        pytest.param(demanding(), "all", id="no terms"),
        pytest.param(demanding(name("In", "n1")), {"n1"}, id="one name"),
        pytest.param(
            demanding(name("In", "n1", "n2")), {"n1", "n2"}, id="two names in a value list"
        ),
        pytest.param(demanding(name("In", "n1"), name("In", "n2")), {"n1", "n2"}, id="two terms"),
        pytest.param(
            demanding(name("In", "n1"), labels(expression("a", "Exists"))),
            "all",
            id="one term without a name",
        ),
        pytest.param(
            demanding({**name("In", "n1"), **labels(expression("a", "Exists"))}),
            {"n1"},
            id="name and labels",
        ),
        pytest.param(demanding(name("NotIn", "n1")), "all", id="NotIn does not narrow"),
        pytest.param(
            demanding(
                {
                    "matchFields": [
                        *name("In", "n1")["matchFields"],
                        *name("In", "n2")["matchFields"],
                    ]
                }
            ),
            "conflict",
            id="contradictory names",
        ),
    ],
)
def test_pre_filter(subject: Pod, expected: Any) -> None:
    cluster = Cluster()

    result = NodeAffinity(None, cluster.handle()).pre_filter(CycleState(), subject, cluster.table)

    if isinstance(expected, set):
        assert result == PreFilterResult(frozenset(expected))
    elif expected == "conflict":
        assert isinstance(result, Status)
        assert result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert result.reasons == ("pod affinity terms conflict",)
    else:
        assert result is (SKIP if expected == "skip" else None)


def test_an_added_required_affinity_is_never_skipped() -> None:
    cluster = Cluster()
    plugin = NodeAffinity(added(name("In", "n")), cluster.handle())

    assert plugin.pre_filter(CycleState(), pod(), cluster.table) is None


@pytest.mark.parametrize(
    ("subject", "raw", "final"),
    [
        pytest.param(
            preferring((2, labels(expression("foo", "In", "bar")))),
            [2, 2, 0],
            [100, 100, 0],
            id="one term",
        ),
        pytest.param(
            preferring(
                (2, labels(expression("foo", "In", "bar"))),
                (4, labels(expression("key", "In", "value"))),
                (5, labels(*(expression(key, "Exists") for key in ("foo", "key", "az")))),
            ),
            [2, 11, 4],
            [18, 100, 36],
            id="weights of matching terms are summed",
        ),
        pytest.param(
            preferring((0, labels(expression("{bad}", "Exists"))), (3, name("In", "n2"))),
            [0, 0, 3],
            [0, 0, 100],
            id="a term of weight 0 is not even parsed",
        ),
        pytest.param(
            preferring((7, labels(expression("nowhere", "Exists")))),
            [0, 0, 0],
            [0, 0, 0],
            id="none",
        ),
    ],
)
def test_score(subject: Pod, raw: list[int], final: list[int]) -> None:
    all_labels = {"foo": "bar", "key": "value", "az": "az1"}
    cluster = Cluster(
        [
            node("n0", labels=FOO_BAR),
            node("n1", labels=all_labels),
            node("n2", labels={"key": "value"}),
        ]
    )
    plugin = NodeAffinity(None, cluster.handle())

    assert raw_scores(plugin, cluster, subject) == raw
    assert final_scores(plugin, cluster, subject) == final


def test_added_preferences_count_for_every_pod() -> None:
    cluster = Cluster([node("n0", labels=FOO_BAR), node("n1", labels={"key": "value"})])
    preferred = ((3, labels(expression("foo", "Exists"))),)
    plugin = NodeAffinity(added(preferred=preferred), cluster.handle())

    assert raw_scores(plugin, cluster, pod()) == [3, 0]
    assert raw_scores(plugin, cluster, preferring((4, name("In", "n1")))) == [3, 4]


def test_pre_score_skips_only_without_any_preference() -> None:
    cluster = Cluster([node()])
    plugin = NodeAffinity(None, cluster.handle())
    rows = cluster.table.rows
    weightless = preferring((0, labels(expression("a", "Exists"))))

    assert plugin.pre_score(CycleState(), pod(), cluster.table, rows) is SKIP
    assert plugin.pre_score(CycleState(), weightless, cluster.table, rows) is None


def test_an_invalid_preference_is_an_error() -> None:
    cluster = Cluster([node()])
    plugin = NodeAffinity(None, cluster.handle())
    subject = preferring((1, labels(expression("{bad}", "Exists"))))

    status = plugin.pre_score(CycleState(), subject, cluster.table, cluster.table.rows)
    result = plugin.score(CycleState(), subject, cluster.table.node_info(0))

    for found in (status, result):
        assert isinstance(found, Status)
        assert found.code is Code.ERROR
        assert found.message.startswith('[0].matchExpressions[0].key: Invalid value: "{bad}"')


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, FOO_BAR, True, id="a matching node appears"),
        pytest.param(None, {}, False, id="another node appears"),
        pytest.param({}, FOO_BAR, True, id="labels begin to match"),
        pytest.param(FOO_BAR, {**FOO_BAR, "a": "b"}, False, id="matched before"),
        pytest.param(FOO_BAR, {}, False, id="labels cease to match"),
    ],
)
def test_hints(old: dict[str, str] | None, new: dict[str, str], wakes: bool) -> None:
    plugin = NodeAffinity(None, Cluster().handle())
    before = None if old is None else node(labels=old)
    event = NODE_ADD if old is None else NODE_LABEL

    assert hint(plugin, event, pod({"nodeSelector": FOO_BAR}), before, node(labels=new)) is wakes


def test_hints_consider_the_added_affinity() -> None:
    plugin = NodeAffinity(added(labels(expression("zone", "In", "z"))), Cluster().handle())

    assert hint(plugin, NODE_ADD, pod(), None, node(labels={"zone": "z"}))
    assert not hint(plugin, NODE_ADD, pod(), None, node())


def test_added_affinity_must_parse() -> None:
    bad = labels(expression("{bad}", "Exists"))
    args = added(bad, preferred=((1, bad),))
    base = "addedAffinity.{}DuringSchedulingIgnoredDuringExecution{}[0].matchExpressions[0].key"

    paths = [path for path, _ in NodeAffinity.validate_args(args)]

    assert paths == [
        base.format("required", ".nodeSelectorTerms"),
        base.format("preferred", ""),
    ]
    with pytest.raises(ConfigurationError, match="Invalid value"):
        NodeAffinity(args, Cluster().handle())


class Asked:
    """Counts the columns that are read."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.columns = 0

    def label_column(self, key: str) -> Any:
        self.columns += 1
        return self._table.label_column(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt"])
def test_terms_about_labels_that_no_node_has_read_no_column(operator: str) -> None:
    cluster = Cluster(node(f"n{index}", labels={"zone": "1"}) for index in range(6))
    values = {"In": ["5"], "NotIn": ["5"], "Gt": ["5"]}.get(operator, [])
    terms = [
        {"matchExpressions": [{"key": f"k{index}", "operator": operator, "values": values}]}
        for index in range(2000)
    ]
    terms.append({"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["5"]}]})
    wanted = cluster.intern(
        pod(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": terms
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": each} for each in terms
                        ],
                    }
                }
            }
        )
    )
    plugin = NodeAffinity(None, cluster.handle())
    table: Any = Asked(cluster.table)

    codes = plugin.filter_rows(CycleState(), wanted, table, cluster.table.rows)
    scores = plugin.score_rows(CycleState(), wanted, table, cluster.table.rows)

    accepts_absence = operator in {"NotIn", "DoesNotExist"}
    assert codes.tolist() == [0 if accepts_absence else 1] * 6
    assert scores.tolist() == [2000 if accepts_absence else 0] * 6
    assert table.columns == 0
