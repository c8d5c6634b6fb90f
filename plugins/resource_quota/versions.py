"""Comparison of two versions of one pod."""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.api.requests import limits_differ


def same_usage(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod certainly have the same usage: same signature, no resize."""
    return (
        old.interned is not None
        and old.interned is new.interned
        and new.status.resources is None
        and old.status.resources is None
        and not limits_differ(old)
        and not limits_differ(new)
    )


def newer(pod: Pod, known: Pod) -> bool:
    """Whether `pod` is not older than `known`; also if their versions are not numbers."""
    try:
        return int(pod.metadata.resource_version) >= int(known.metadata.resource_version)
    except ValueError:
        return True
