"""A search for pods of a world that wait in vain."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.explain.records import QueueState
from scheduler.offline.world import World


def forgotten(world: World) -> Iterator[str]:
    """Yield a sentence for each pod that waits for an event, although it could be scheduled."""
    frameworks = world._assembly.profiles.frameworks
    for waiting in world.waiting():
        if waiting.state not in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            continue
        explained = world.explain(waiting.pod)
        view, nodes = explained.queue, explained.nodes
        assert view is not None
        if view.next_retry is not None and view.next_retry_reason != "periodic flush":
            continue
        why = f"pod {waiting.pod} is {waiting.state} by {waiting.plugins} ({waiting.reason})"
        if waiting.state == QueueState.GATED:
            pod = world.pod(waiting.pod)
            plugins = frameworks[pod.spec.scheduler_name].pre_enqueue
            gates = [each.pre_enqueue(pod) for each in plugins]
            if all(each is None or each.success for each in gates):
                yield f"{why}, but no plugin holds it"
        elif nodes is not None and not nodes.error and nodes.feasible:
            yield f"{why}, but fits on {nodes.feasible} nodes"
