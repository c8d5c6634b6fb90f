"""Claims with the results of our own writes (upstream `assume_cache.go: AssumeCache`).

Invariant: an assumed claim replaces the watched one until the watch shows the same or a newer
version, or the deletion. Older versions that the watch delivers meanwhile are ignored, so that the
devices of a claim never look free between the response to a write and its watch event.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.api.devices import ResourceClaim

Key = tuple[str, str]
"""Namespace and name."""
Changed = Callable[[ResourceClaim | None, ResourceClaim | None], None]


class ClaimCache:
    """The watched claims, of which some are replaced by assumed versions."""

    def __init__(
        self, watched: Callable[[str, str], ResourceClaim | None], changed: Changed
    ) -> None:
        """`watched(name, namespace)` returns a claim; `changed(old, new)` is called for changes."""
        self._watched = watched
        self._changed = changed
        self._assumed: dict[Key, ResourceClaim] = {}

    def __len__(self) -> int:
        """Return the number of assumptions."""
        return len(self._assumed)

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """Return the newest known version of a claim; None if it does not exist."""
        watched = self._watched(name, namespace)
        assumed = self._assumed.get((namespace, name)) if self._assumed else None
        if watched is None or assumed is None or not _is_newer(assumed, watched):
            return watched
        return assumed

    def event(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handle an event of the watch; `new` is None if the claim was deleted."""
        claim = old if new is None else new
        if claim is None:
            return
        if new is not None:
            # The lister may already be ahead of this event.
            newest = self.get(new.metadata.name, new.metadata.namespace)
            if newest is not None and _is_newer(newest, new):
                new = newest
        if self._assumed:
            self._drop_assumed(claim, new)
        self._changed(old, new)

    def _drop_assumed(self, claim: ResourceClaim, new: ResourceClaim | None) -> None:
        """End the assumption if an event confirms or contradicts it."""
        assumed = self._assumed.get(_key(claim))
        if assumed is None or assumed is new:
            return
        is_other = claim.metadata.uid != assumed.metadata.uid
        if is_other and new is None:
            # This is the late deletion of an earlier claim with the same name.
            return
        del self._assumed[_key(claim)]
        if is_other:
            self._changed(assumed, None)

    def assume(self, claim: ResourceClaim) -> bool:
        """Adopt the response to a write before the watch shows it.

        Returns False, without effect, if the watch does not know the claim (any more).
        """
        key = _key(claim)
        watched = self._watched(claim.metadata.name, claim.metadata.namespace)
        if watched is None or watched.metadata.uid != claim.metadata.uid:
            return False
        latest = self._assumed.get(key, watched)
        if _is_newer(watched, latest):
            latest = watched
        if _is_newer(claim, latest):
            latest = claim
        # Responses to concurrent writes may arrive in another order than the writes.
        if latest is watched:
            self._assumed.pop(key, None)
        else:
            self._assumed[key] = latest
        self._changed(None, latest)
        return True

    def begin_trial(self) -> Callable[[], None]:
        """Return a function that restores the present assumptions after a trial."""
        before = dict(self._assumed)

        def restore() -> None:
            self._assumed = before
            for claim in before.values():
                self._changed(None, claim)

        return restore

    def validate(self) -> None:
        """Raise AssertionError if an assumption contradicts its key."""
        for key, claim in self._assumed.items():
            assert _key(claim) == key


def is_at_least(claim: ResourceClaim, version: str) -> bool:
    """Whether a claim has this resourceVersion or a later one."""
    own = claim.metadata.resource_version
    return not (own.isdecimal() and version.isdecimal()) or int(own) >= int(version)


def _is_newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether `one` is a later version of the same claim; False for versions without a number."""
    if one.metadata.uid != other.metadata.uid:
        return False
    return not is_at_least(other, one.metadata.resource_version)


def _key(claim: ResourceClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name
