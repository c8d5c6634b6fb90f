"""The explanation of a pod in plain words: its state, why, what it waits for, or why this node.

A few sentences from the records, for people; nothing is in them that the records do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Final

from scheduler.explain.records.causes import words_of
from scheduler.explain.records.decision import Decision, DecisionResult, RejectionCount
from scheduler.explain.records.explain_page import NotRemembered
from scheduler.explain.records.explanation import Examination, PodExplanation, PodState, Rejection
from scheduler.explain.records.objects import object_words
from scheduler.explain.records.queue import PodView, QueueState
from scheduler.explain.records.scores import NodeScore
from scheduler.explain.records.wording import changes, counted, shortened, span

MAX_TEXT: Final = 400
"""Characters of one text of a plugin in a sentence."""
_LEFT_OUT: Final = "node(s) didn't satisfy plugin"
"""The beginning of the engine's reason where PreFilter left nodes out; then it names plugins."""
MAX_GROUPS: Final = 3
"""Groups of rejections, or evicted pods, in words; the others are in tables."""
MAX_EVENTS: Final = 4
MAX_DIFFERENCES: Final = 4
"""Plugins whose scores differ between two nodes, the largest difference first."""

NOT_REMEMBERED: Final = {
    NotRemembered.OFF: (
        "Why this node was chosen is not known: remembering decisions is switched off "
        "(kubestow.decisionHistory.pods is 0)."
    ),
    NotRemembered.EARLIER: (
        "Why this node was chosen is not known: the pod was bound before this scheduler began "
        "to lead, and decisions are not handed on."
    ),
    NotRemembered.EVICTED: (
        "Why this node was chosen is not remembered any more: later decisions took the memory "
        "(kubestow.decisionHistory.pods)."
    ),
}


def tell(
    pod: PodExplanation,
    decisions: Sequence[Decision] = (),
    not_remembered: NotRemembered | None = None,
) -> list[str]:
    """Return two to six sentences about a pod; its decisions are in order."""
    if pod.state is PodState.QUEUED and pod.queue is not None:
        sentences = _pending(pod, pod.queue, decisions)
    elif pod.node:
        sentences = _placed(pod, decisions, not_remembered)
    elif pod.state is PodState.NOT_OURS:
        sentences = _of_another(pod)
    else:
        sentences = iter([_sentence(pod.summary)])
    return [each for each in sentences if each]


# -- pods that wait ------------------------------------------------------------------------------


def _pending(pod: PodExplanation, view: PodView, decisions: Sequence[Decision]) -> Iterator[str]:
    last = decisions[-1] if decisions else None
    nodes = "" if pod.nodes is None else _nodes(pod, pod.nodes, last)
    failed = view.place in {QueueState.UNSCHEDULABLE, QueueState.BACKOFF}
    gated_by = None if pod.nodes is None else _gated_by_object(view, pod.nodes)
    detail = "" if gated_by is None else gated_by.detail
    if gated_by is not None:
        nodes = ""
    # Why it has no node is what is asked first; where it stands otherwise decides that.
    why = (nodes, "" if pod.nodes is None else _otherwise(pod.nodes, last))
    standing = _standing(view, pod.now, detail)
    yield from (*why, standing) if failed else (standing, *why)
    if pod.nodes is not None:
        yield _eviction(pod.nodes, view, decisions)
    failed_elsewhere = pod.nodes is not None and pod.nodes.feasible and not pod.nodes.error
    if failed_elsewhere and view.message and view.place is not QueueState.GATED:
        yield f"The last attempt failed: {_plain(view.message)}"
        yield _denied(view.message)
    yield _waits_for(pod, view)


def _gated_by_object(view: PodView, nodes: Examination) -> Rejection | None:
    """Return the rejection of all nodes that says again what the gate says of an object."""
    if view.place is not QueueState.GATED or object_words(view.message) is None:
        return None
    return next((each for each in nodes.rejections if each.reasons == (view.message,)), None)


def why_waiting(view: PodView, last: Decision | None = None) -> str:
    """Return in a sentence why a pod waits, without asking any node; `last` as remembered."""
    if view.place in {QueueState.GATED, QueueState.IN_FLIGHT} or not view.message:
        return _standing(view, view.timestamp)
    if last is not None and last.message == view.message and last.rejections and not last.node:
        return none_fits(last.nodes, last.rejections, namespace=view.namespace)
    found = object_words(view.message, view.namespace)
    return _plain(view.message if found is None else _capital(found.sentence()))


def _standing(view: PodView, now: float, detail: str = "") -> str:
    attempts = (
        f"after {counted(view.attempts, 'attempt')}, the last {span(now - view.timestamp)} ago"
    )
    match view.place:
        case QueueState.GATED:
            found = object_words(view.message, view.namespace)
            message = view.message if found is None else found.sentence(detail)
            why = f": {shortened(message, MAX_TEXT)}" if message else ""
            return f"Plugin {view.gating_plugin} does not let it be scheduled yet{why}."
        case QueueState.IN_FLIGHT:
            return "It is being scheduled at this moment."
        case QueueState.ACTIVE:
            if view.position is None:
                return "It waits for its turn in the queue."
            turn = f"{counted(view.position, 'pod')} before it" if view.position else "it is next"
            return f"It waits for its turn in the queue: {turn}."
        case QueueState.BACKOFF:
            return f"It waits for its next attempt, {attempts}."
        case _:
            return f"It is unschedulable, {attempts}."


def _nodes(pod: PodExplanation, nodes: Examination, last: Decision | None) -> str:
    gated = pod.queue is not None and pod.queue.place is QueueState.GATED
    if not nodes.nodes:
        return "The cluster has no nodes."
    if nodes.error:
        return f"An attempt now would end with an error: {_plain(nodes.error)}"
    if nodes.feasible:
        where = f", best on {nodes.best[0].node}" if nodes.best else ""
        if where and nodes.tied > 1:
            where += f" and {counted(nodes.tied - 1, 'other')} alike, of which one is chosen"
        once = "Once let in, it would fit" if gated else "It fits"
        once = "It would fit" if pod.state is PodState.NOT_OURS else once
        return f"{once} on {nodes.feasible} of {counted(nodes.nodes, 'node')} now{where}."
    counts = [_counted(each, last) for each in nodes.rejections]
    return none_fits(nodes.nodes, counts, nodes.rejections, namespace=pod.namespace)


def _otherwise(nodes: Examination, last: Decision | None) -> str:
    """Return in a sentence what no node has besides; nothing if one would fit otherwise."""
    counts = [_counted(each, last) for each in nodes.otherwise]
    return f"Apart from that, {_groups(counts)}." if counts else ""


def none_fits(
    nodes: int,
    counts: Sequence[RejectionCount],
    rejections: Sequence[Rejection] = (),
    *,
    namespace: str,
) -> str:
    """Return in a sentence why a pod fits on none of the nodes, and what it lacks if an object.

    `rejections` belong to the counts one by one, and name nodes. `namespace` is the pod's.
    """
    return f"None of {counted(nodes, 'node')} fits: {why_not(counts, rejections, namespace)}."


def why_not(
    counts: Sequence[RejectionCount], rejections: Sequence[Rejection], namespace: str
) -> str:
    """Return that sentence from its colon on."""
    found = object_words(counts[0].reason, namespace) if len(counts) == 1 else None
    if found is not None:
        return found.sentence(shortened(counts[0].detail, MAX_TEXT))
    return _groups(counts, rejections)


def _groups(counts: Sequence[RejectionCount], rejections: Sequence[Rejection] = ()) -> str:
    names = [each.examples[0] if each.nodes == 1 and each.examples else "" for each in rejections]
    # What may pass comes first: the nodes that are ruled out for ever never counted.
    alike: dict[tuple[str, str, str], tuple[RejectionCount, str]] = {}
    for count, name in zip(counts, chain(names, repeat("")), strict=False):
        # They differ in what the clause does not say, such as whether evictions might help.
        key = (count.plugin, count.reason, count.detail)
        same = alike.get(key)
        both = None if same is None else replace(count, nodes=count.nodes + same[0].nodes)
        alike[key] = (count, name) if both is None else (both, "")
    ordered = sorted(alike.values(), key=lambda each: _rank(each[0]))
    groups = [_group(*each) for each in ordered[:MAX_GROUPS]]
    rest = sum(each.nodes for each, _ in ordered[MAX_GROUPS:])
    if rest:
        groups.append(f"{counted(rest, 'other')} for other reasons (-v)")
    return "; ".join(groups)


def _rank(count: RejectionCount) -> tuple[bool, int]:
    words = [words_of(each) for each in count.reason.split(", ")]
    return not any(each is not None and each.passing for each in words), -count.nodes


def _group(count: RejectionCount, name: str = "") -> str:
    words = [words_of(each) for each in count.reason.split(", ")]
    known = [each.one if count.nodes == 1 else each.several for each in words if each is not None]
    # A text of a plugin tells more if one knows whose it is.
    text = shortened(count.reason, MAX_TEXT) or count.status
    if len(known) == len(words):
        verb = known[0].partition(" ")[0] if known[0].startswith("lack") else "-"
        text = " and ".join([known[0], *(each.removeprefix(f"{verb} ") for each in known[1:])])
    elif (found := object_words(text)) is not None:
        text = f"{'is' if count.nodes == 1 else 'are'} ruled out: {found.fact}"
    elif text.startswith(_LEFT_OUT):
        text = f"{'is' if count.nodes == 1 else 'are'} ruled out by {count.plugin}"
    elif text.startswith("node(s)"):
        text = f"{text} [{count.plugin}]"
    else:
        text = f"{'is' if count.nodes == 1 else 'are'} rejected by {count.plugin}: {text}"
    node = f" ({name})" if name else ""
    numbers = f" ({shortened(count.detail, MAX_TEXT)})" if count.detail else ""
    return f"{count.nodes}{node} {text}{numbers}"


def _counted(rejection: Rejection, last: Decision | None) -> RejectionCount:
    reason = ", ".join(rejection.reasons)
    detail = rejection.detail or _detail(rejection, last)
    return RejectionCount(rejection.plugin, rejection.status, reason, rejection.nodes, detail)


def _detail(rejection: Rejection, last: Decision | None) -> str:
    if last is None:
        return ""
    reason = ", ".join(rejection.reasons)
    same = (
        each.detail
        for each in last.rejections
        if each.plugin == rejection.plugin and each.reason == reason
    )
    return next(same, "")


def _eviction(nodes: Examination, view: PodView, decisions: Sequence[Decision]) -> str:
    node = view.nominated_node
    if node:
        # A node is nominated for other reasons too, such as a binding that was interrupted.
        evicting = _evicting(decisions)
        if evicting is None or evicting.nominated_node not in ("", node):
            return f"Node {node} is nominated for it."
        return f"Pods were evicted ({_victims(evicting)}) to make room on {node}."
    if nodes.feasible or nodes.error or not nodes.rejections:
        return ""
    if view.place is QueueState.GATED:
        return ""
    helped = sum(each.nodes for each in nodes.rejections if each.status == "Unschedulable")
    if not helped:
        return "Evicting other pods would not help."
    if nodes.evictable is None:
        # Of all namespaces, and so not known to who may see one.
        return ""
    if nodes.evictable == 0:
        return "Preemption would not help: no pod on those nodes has a lower priority."
    helped = min(helped, nodes.evictable)
    return f"Evicting pods of lower priority might help on {counted(helped, 'node')}."


def _evicting(decisions: Sequence[Decision]) -> Decision | None:
    """Return the last decision that evicted pods; later attempts wait until these have left."""
    uid = decisions[-1].uid if decisions else ""
    return next((each for each in reversed(decisions) if each.victims and each.uid == uid), None)


def _victims(decision: Decision) -> str:
    victims = decision.victims
    rest = len(victims) - MAX_GROUPS
    more = f" and {counted(rest, 'other')} (--history)" if rest > 0 else ""
    return f"{', '.join(victims[:MAX_GROUPS])}{more}"


_DENIED: Final = re.compile(
    r'User "(?:system:serviceaccount:)?([\w@.:+-]{1,200})" cannot (\w{1,20}) '
    r'resource "([\w./]{1,99})"'
)


def _denied(message: str) -> str:
    """Return what to do if the API server refused the scheduler something; else nothing."""
    found = _DENIED.search(message)
    if found is None:
        return ""
    user, verb, resource = found.groups()
    account = f" --service-account {user.replace(':', '/')}" if ":" in user else ""
    return (
        f"The scheduler itself lacks the permission to {verb} {resource}: "
        f"`kubestow check{account}` shows the rule to add."
    )


def _waits_for(pod: PodExplanation, view: PodView) -> str:
    if view.place in {QueueState.ACTIVE, QueueState.IN_FLIGHT}:
        return _sentence(view.next_retry_reason) if view.position is None else ""
    labels = [label for each in pod.awaits for label in each.events]
    events = changes(dict.fromkeys(labels))
    if len(events) > MAX_EVENTS:
        events = [*events[: MAX_EVENTS - 1], "something else of many happens (-v)"]
    when = "; ".join(f"when {each}" for each in events)
    latest = ""
    if view.next_retry is not None:
        latest = f"in {span(view.next_retry - pod.now)} at the latest ({view.next_retry_reason})"
    if view.place is QueueState.BACKOFF:
        return f"It is tried again {latest}." if latest else ""
    tried = "; and ".join(each for each in (when, latest) if each)
    if view.place is QueueState.GATED:
        return f"The plugin is asked again {tried}." if tried else ""
    return f"It is tried again {tried}." if tried else "Nothing is known that would wake it."


# -- pods that have a node -----------------------------------------------------------------------


def _placed(
    pod: PodExplanation, decisions: Sequence[Decision], not_remembered: NotRemembered | None
) -> Iterator[str]:
    yield _sentence(pod.summary)
    last = decisions[-1] if decisions else None
    if last is None or last.node != pod.node or last.result is not DecisionResult.PLACED:
        yield "" if not_remembered is None else NOT_REMEMBERED.get(not_remembered, "")
        return
    yield f"{_choice(last)}."
    yield _cost(last)
    evicting = _evicting(decisions)
    if evicting is not None:
        elsewhere = evicting.nominated_node not in ("", pod.node)
        where = f" on {evicting.nominated_node}" if elsewhere else ""
        yield f"Evicted for it{where}: {_victims(evicting)}."


def _choice(decision: Decision) -> str:
    """Return how the chosen node compares with the next best.

    The difference of a plugin is what the other node has more, times its weight.
    """
    chosen = next((each for each in decision.best if each.node == decision.node), None)
    total = f" (total {chosen.total})" if chosen is not None else ""
    seen = f", {decision.evaluated} of {decision.nodes} looked at"
    text = f"Chosen: {decision.node}{total} of {decision.feasible} that fit{seen}"
    others = [each for each in decision.best if each.node != decision.node]
    if chosen is None:
        why = ", as no other was found to fit" if decision.feasible == 1 else ""
        return f"{text}; nothing was scored{why}"
    if not others:
        return text
    return f"{text}; next {others[0].node}: {compared(chosen, others[0])}"


def compared(chosen: NodeScore, other: NodeScore) -> str:
    """Return by how much each plugin prefers another node to the chosen one."""
    before = {each.plugin: each.weighted for each in chosen.scores}
    after = {each.plugin: each.weighted for each in other.scores}
    names = dict.fromkeys((*before, *after))
    found = {name: after.get(name, 0) - before.get(name, 0) for name in names}
    order = sorted((name for name in found if found[name]), key=lambda name: -abs(found[name]))
    if not order:
        return "equal scores, a tie"
    parts = [f"{name} {found[name]:+d}" for name in order[:MAX_DIFFERENCES]]
    if len(order) > MAX_DIFFERENCES:
        rest = sum(found[name] for name in order[MAX_DIFFERENCES:])
        parts.append(f"{counted(len(order) - MAX_DIFFERENCES, 'other plugin')} {rest:+d}")
    return ", ".join(parts)


def _cost(decision: Decision) -> str:
    attempts = "the first attempt" if decision.attempt == 1 else f"attempt {decision.attempt}"
    if not decision.bound:
        return f"It was {attempts}."
    return f"It was {attempts}, bound {1000 * decision.seconds:.0f} ms after it began."


# -- pods of other schedulers --------------------------------------------------------------------


def _of_another(pod: PodExplanation) -> Iterator[str]:
    yield _sentence(pod.summary)
    if pod.nodes is None:
        return
    who = f'"{pod.examined_by}"' if pod.examined_by else "this scheduler"
    yield f"What if {who} were to place it? {_nodes(pod, pod.nodes, None)}"
    yield _otherwise(pod.nodes, None)
    yield "That is what this scheduler sees; the other one decides by rules of its own."


# -- sentences -----------------------------------------------------------------------------------


def _plain(text: str) -> str:
    line = shortened(text, MAX_TEXT)
    return line if line.endswith((".", "…")) else f"{line}."


def _sentence(text: str) -> str:
    return _plain(_capital(text)) if text else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
