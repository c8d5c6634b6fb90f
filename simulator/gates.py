"""Feature gates of the simulated control plane: each component has a set of its own.

The API server and the controllers can disagree, as they do while a real cluster is upgraded; the
scheduler has gates of its own (`kubestow run --feature-gates`). A gate that is not set follows the
personality: on in `native`, off in `stock`. Sets may be changed while the cluster runs, which
stands for a restart of the component with another `--feature-gates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from simulator.admission import Personality

FALLBACK_GATE: Final = "PodTopologySpreadFallbackMode"
"""KEP-3990: `fallbackCriteria` of spread constraints."""
QUOTA_GATE: Final = "ResourceQuotaDeferredEnforcement"
"""KEP-5465: gated pods are not charged."""
WORKLOAD_GATE: Final = "GenericWorkload"
"""Off by default in v1.37: pods keep `schedulingGroup`; PodGroups of `scheduling.k8s.io` are served
if it is on from the start."""
EFFECTIVE_GATES: Final[Mapping[str, tuple[str, ...]]] = {
    "apiserver": (FALLBACK_GATE, QUOTA_GATE, WORKLOAD_GATE),
    "controllers": (FALLBACK_GATE, QUOTA_GATE),
}
"""The gates that have an effect, by component."""
_OF_PERSONALITY: Final = (FALLBACK_GATE, QUOTA_GATE)
"""Gates that the personality `native` has on; others are off unless they are set."""


def default_of(name: str, personality: Personality) -> bool:
    """Return whether a gate is on that was not set."""
    return personality == "native" and name in _OF_PERSONALITY


class ServerGates(Mapping[str, bool]):
    """The gates of one component. As a mapping: those that were set explicitly."""

    def __init__(
        self,
        personality: Personality = "stock",
        given: Mapping[str, bool] | None = None,
        component: str = "apiserver",
    ) -> None:
        self.personality: Final = personality
        #: Those that have an effect.
        self.known: Final = EFFECTIVE_GATES[component]
        self._set = dict(given or {})

    def __getitem__(self, name: str) -> bool:
        return self._set[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._set)

    def __len__(self) -> int:
        return len(self._set)

    def enabled(self, name: str) -> bool:
        """Whether a gate is on.

        >>> [ServerGates(server).enabled(FALLBACK_GATE) for server in ("native", "stock")]
        [True, False]
        """
        return self._set.get(name, default_of(name, self.personality))

    def change(self, wanted: Mapping[str, bool]) -> None:
        """Set gates from now on. Names are the caller's to check."""
        self._set.update(wanted)

    def describe(self) -> dict[str, bool]:
        """Return every gate that is known or was set, and whether it is on."""
        return {name: self.enabled(name) for name in sorted({*self.known, *self._set})}
