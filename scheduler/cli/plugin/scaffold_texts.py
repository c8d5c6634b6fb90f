"""The texts of a new plugin: parts for each extension point, and its other files.

`@class`, `@module` and other words with an `@` stand for what `scaffold` fills in. It puts the
parts together, and the tests run every combination under pytest and mypy --strict.
"""

from __future__ import annotations

from typing import Final

HEAD: Final = '''\
"""@class: written by `kubestow plugin new`. Put your rule in the place of the one below."""

from __future__ import annotations

from collections.abc import @collections
from typing import ClassVar

import msgspec
@imports

class @classArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of @class."""

    #: Key of the label that the rule reads.
    label: str = "@label"
@fields

class @class:
    """@doc"""

    name: ClassVar[str] = "@name"
    args_type: ClassVar[type[@classArgs]] = @classArgs
@attributes
    def __init__(self, args: @classArgs, handle: Handle) -> None:
        self._label = args.label
@constructor
    @staticmethod
    def validate_args(args: @classArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not is_qualified_name(args.label):
            yield "label", f'"{args.label}" is no label key; write one like @label'
@checks'''

METHODS: Final = {
    "pre-enqueue": '''
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold pods with the value "hold" until their label changes."""
        held = pod.metadata.labels.get(self._label) == "hold"
        return unresolvable(f"label {self._label} is hold") if held else None
''',
    "pre-filter": '''
    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Reject a pod with the label at once while no node has it."""
        if self._label not in pod.metadata.labels:
            return None
        # One look at the column of the label instead of one at each node; -1 stands for no label.
        there = bool((table.label_column(self._label)[table.rows] >= 0).any())
        return None if there else self._no_node
''',
    "filter": '''
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept nodes that have the value of the pod; every node if the pod has none."""
        wanted = pod.metadata.labels.get(self._label)
        if wanted is None or node.labels.get(self._label) == wanted:
            return None
        return self._other
''',
    "filter columnar": '''
    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Do as `filter` for many nodes at once: 0 accepts."""
        wanted = pod.metadata.labels.get(self._label)
        if wanted is None:
            return np.zeros(len(rows), dtype=np.int32)
        # One comparison for each distinct value; the id of a missing label is -1, the last element.
        differs = [text != wanted for text in table.label_values(self._label).values]
        codes = np.array([*differs, True], dtype=np.int32)
        found: Codes = codes[table.label_column(self._label)[rows]]
        return found

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection; there is only one."""
        return self._other
''',
    "score": '''
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the whole number from 0 to 100 in the label of the node; 0 for anything else."""
        value = node.labels.get(self._label, "")
        # Labels are written by others: a value that is no number must not end the attempt.
        if not (value.isascii() and value.isdecimal()) or len(value) > MAX_DIGITS:
            return 0
        return min(int(value), MAX_NODE_SCORE)
''',
    "score columnar": '''
    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Do as `score` for many nodes at once."""
        values = table.label_values(self._label)
        usable = values.is_integer & (values.integers >= 0)
        scores = np.where(usable, np.minimum(values.integers, MAX_NODE_SCORE), 0)
        # The id of a missing label is -1, which selects the appended last element.
        found: Int64Column = np.append(scores, 0)[table.label_column(self._label)[rows]]
        return found
''',
    "reserve": '''
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Take one of the tokens for a pod that has the label."""
        if self._label not in pod.metadata.labels or pod.uid in self._holders:
            return None
        if len(self._holders) >= self._tokens:
            return unschedulable(f"all {self._tokens} tokens are taken")
        self._holders.add(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give the token back; called more than once."""
        self._holders.discard(pod.uid)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Count pods that run already when the scheduler starts, and forget those that end."""
        if new is None and old is not None:
            self._holders.discard(old.uid)
        elif new is not None and new.spec.node_name and self._label in new.metadata.labels:
            self._holders.add(new.uid)
''',
    "permit": '''
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Let a pod with the value "wait" wait on its node until its label changes."""
        if pod.metadata.labels.get(self._label) != "wait":
            return None, 0.0
        reason = f"waits until label {self._label} is no longer wait"
        return Status(Code.WAIT, (reason,)), self._wait_seconds
''',
    "pre-bind": '''
    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip pods without the label: for them `pre_bind` has nothing to do."""
        return None if self._label in pod.metadata.labels else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Note the node in an annotation, before the pod is bound to it."""
        annotations = {self._label: node_name}
        meta = pod.metadata
        # A merge patch; an exception undoes Reserve, and the pod is tried again.
        body = {"metadata": {"annotations": annotations}}
        await self._api.patch("pods", meta.name, meta.namespace, body)
        return None
''',
}
"""Methods by extension point; those called `columnar` stand beside the scalar form."""

FIELDS: Final = {
    "reserve": """\
    #: Pods with the label that may be on nodes at the same time.
    tokens: int = 3
""",
    "permit": """\
    #: Seconds that a pod may wait on its node before it is rejected, at most 900.
    wait_seconds: float = 300
""",
}
ATTRIBUTES: Final = {
    "permit": """\
    #: An event of `events_to_register` asks `permit` again about pods that wait.
    permit_on_events: ClassVar[bool] = True
""",
    "pre-bind": """\
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission(
            resource="pods",
            verbs=("patch",),
            purpose="@class: noting the node of a pod",
            without="pods with the label @label cannot be bound",
        ),
    )
""",
    "score columnar": """\
    #: A raw score depends on nothing but the labels of the node.
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.LABELS)
""",
}
CONSTRUCTOR: Final = {
    "filter": '        self._other = unresolvable("node(s) had another value of " + args.label)\n',
    "pre-filter": '        self._no_node = unresolvable("no node has the label " + args.label)\n',
    "permit": "        self._wait_seconds = args.wait_seconds\n",
    "pre-bind": "        self._api = handle.api\n",
    "reserve": """\
        self._tokens = args.tokens
        self._holders: set[str] = set()
        handle.subscriptions.on_object("pods", self._pod_changed)
""",
}
CHECKS: Final = {
    "reserve": """\
        if args.tokens < 1:
            yield "tokens", f"{args.tokens} lets no pod in; write 1 or more"
""",
    "permit": """\
        if not 0 < args.wait_seconds <= 900:
            yield "waitSeconds", f"{args.wait_seconds} is not within 0 to 900 seconds"
""",
}
WHAT: Final = {
    "pre-enqueue": "Holds pods whose label says so.",
    "pre-filter": "Rejects pods with a label that no node has.",
    "filter": "Keeps pods on nodes with the same value of a label.",
    "score": "Prefers nodes with a large number in their label.",
    "reserve": "Lets no more pods with a label run than there are tokens.",
    "permit": "Lets pods wait on their nodes while their label says so.",
    "pre-bind": "Notes the node of a pod in an annotation.",
}
EVENTS_HEAD: Final = '''
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for whatever may help a rejected pod."""
        return (
'''
EVENT: Final = """\
            ClusterEventWithHint(
                ClusterEvent(EventResource.{}, {})
            ),
"""
EVENTS: Final = {
    "pre-enqueue": (("TARGET_POD", "ActionType.UPDATE_POD_LABEL"),),
    "pre-filter": (
        ("NODE", "ActionType.ADD | ActionType.UPDATE_NODE_LABEL"),
        ("TARGET_POD", "ActionType.UPDATE_POD_LABEL"),
    ),
    "permit": (("TARGET_POD", "ActionType.UPDATE_POD_LABEL"),),
    "filter": (
        ("NODE", "ActionType.ADD | ActionType.UPDATE_NODE_LABEL"),
        ("TARGET_POD", "ActionType.UPDATE_POD_LABEL"),
    ),
    "reserve": (
        ("ASSIGNED_POD", "ActionType.DELETE"),
        ("TARGET_POD", "ActionType.UPDATE_POD_LABEL"),
    ),
}
"""Resource and actions of the events, by point; Score rejects nothing."""

TEST_HEAD: Final = '''\
"""Tests of @class. `cluster` is the whole scheduler in virtual time: see `kubestow.testing`."""

from __future__ import annotations

from @module import @class

from kubestow.testing import Cluster, check_plugin, node, pod

LABEL = "@label"


def test_it_keeps_the_contract() -> None:
    check_plugin(@class, clusters=5)
'''
TESTS: Final = {
    "pre-enqueue": """

def test_a_pod_is_held(cluster: Cluster) -> None:
    cluster.enable(@class)
    cluster.add_node(node("n1", labels={LABEL: "hold"}))
    cluster.add_pods(pod("held", labels={LABEL: "hold"}))
    cluster.assert_unschedulable("held", plugin="@name", reason="is hold")
""",
    "pre-filter": """

def test_a_pod_waits_for_a_node_with_the_label(cluster: Cluster) -> None:
    cluster.enable(@class)
    cluster.add_node(node("bare"))
    cluster.add_pods(pod("web", labels={LABEL: "a"}))
    cluster.assert_unschedulable("web", plugin="@name", reason="no node has the label")
    cluster.add_node(node("n1", labels={LABEL: "a"}))
    cluster.assert_scheduled("web")
""",
    "filter": """

def test_a_pod_goes_to_a_node_with_its_value(cluster: Cluster) -> None:
    cluster.enable(@class)
    cluster.add_node(node("n1", labels={LABEL: "a"}))
    cluster.add_node(node("n2", labels={LABEL: "b"}))
    cluster.add_pods(pod("right", labels={LABEL: "b"}))
    cluster.add_pods(pod("nowhere", labels={LABEL: "c"}))
    cluster.assert_scheduled("right", node="n2")
    cluster.assert_unschedulable("nowhere", plugin="@name", reason="another value")
""",
    "score": """

def test_a_large_number_is_preferred(cluster: Cluster) -> None:
    cluster.enable(@class, weight=100)
    cluster.add_node(node("low", labels={LABEL: "1"}))
    cluster.add_node(node("high", labels={LABEL: "90"}))
    cluster.add_pods(pod("web"))
    cluster.assert_scheduled("web", node="high")
""",
    "reserve": """

def test_tokens_are_taken_and_given_back(cluster: Cluster) -> None:
    cluster.enable(@class, {"tokens": 1})
    cluster.add_node(node("n1", labels={LABEL: "a"}))
    cluster.add_pods(pod("web", labels={LABEL: "a"}), count=2)
    cluster.assert_scheduled("web-0")
    cluster.assert_unschedulable("web-1", plugin="@name", reason="tokens are taken")
    cluster.world.remove("Pod", "web-0", "default")
    cluster.assert_scheduled("web-1")
""",
    "permit": """

def test_a_pod_waits_until_its_label_changes(cluster: Cluster) -> None:
    cluster.enable(@class)
    cluster.add_node(node("n1", labels={LABEL: "wait"}))
    cluster.add_pods(pod("web", labels={LABEL: "wait"}))
    cluster.tick(10)
    assert not cluster.world.placements()
    cluster.add(pod("web", labels={LABEL: "go"}))
    cluster.assert_scheduled("web", node="n1")


def test_a_pod_that_waits_too_long_is_rejected(cluster: Cluster) -> None:
    cluster.enable(@class, {"waitSeconds": 60})
    cluster.add_node(node("n1", labels={LABEL: "wait"}))
    cluster.add_pods(pod("web", labels={LABEL: "wait"}))
    cluster.tick(61)
    assert any("timeout" in each.note for each in cluster.events)
""",
    "pre-bind": """

def test_the_node_is_noted_on_the_pod(cluster: Cluster) -> None:
    cluster.enable(@class)
    cluster.add_node(node("n1", labels={LABEL: "a"}))
    cluster.add_pods(pod("web", labels={LABEL: "a"}))
    cluster.assert_scheduled("web")
    assert cluster.world.pod("default/web").metadata.annotations[LABEL] == "n1"
""",
}

CONFIG: Final = """\
# kubestow run --config config.yaml --plugin-dir .
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration

profiles:
  - schedulerName: kubestow
    plugins:
      multiPoint:
        enabled:
          - name: @module:@class
    pluginConfig:
      - name: @name
        args:
          label: @label
"""

KUSTOMIZATION: Final = """\
# kubestow with this plugin, without building an image: the files become a ConfigMap, the ConfigMap
# a mount. `manifests` is the folder of that name in kubestow's repository, copied beside this one.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../manifests
configMapGenerator:
  # Its name gets a hash of the content, so that a changed plugin restarts the Deployment.
  - name: kubestow-plugins
    namespace: kubestow-system
    files:
      - config.yaml
      - @module.py
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: kubestow
        namespace: kubestow-system
      spec:
        template:
          spec:
            containers:
              - name: kubestow
                args:
                  - --config=/etc/kubestow-plugins/config.yaml
                  - --plugin-dir=/etc/kubestow-plugins
                volumeMounts:
                  - name: plugins
                    mountPath: /etc/kubestow-plugins
                    readOnly: true
            volumes:
              - name: plugins
                configMap:
                  name: kubestow-plugins
"""

README: Final = """\
# @class

@what

```sh
pytest                                   # the tests
mypy --strict @module.py
kubestow plugin check @module.py         # faults that tests of a rule do not find, and the speed
kubestow plugin try @module.py           # its decisions on the demo cluster, again after each save
kubestow config validate config.yaml --plugin-dir .
kubestow demo --config config.yaml --plugin-dir . --serve
kubectl apply -k .                       # into a cluster: see kustomization.yaml
```
"""
