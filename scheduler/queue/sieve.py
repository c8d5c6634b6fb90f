"""Groups of waiting pods by what an event must offer to help them (`HintKeys`).

Where a thousand pods wait, each for another label, an event would ask a thousand hints to wake one
pod. Here it looks up the keys it offers instead.

Invariant: for every keyed registration a group is filed under exactly the keys that it wanted when
it was made, or as one that nobody knows about. It does not decide anything: whoever is found is
asked by hint as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Final, Generic, TypeVar

G = TypeVar("G")

RequiredKeys = Mapping[Hashable, Collection[Hashable] | None]
"""By keyed registration: the keys wanted, None where nobody knows."""

NO_REQUIRED_KEYS: Final[RequiredKeys] = {}


class HintKeyIndex(Generic[G]):
    """Groups filed under (registration, key)."""

    __slots__ = ("_by_key", "_unknown")

    def __init__(self) -> None:
        self._by_key: dict[tuple[Hashable, Hashable], dict[Hashable, G]] = {}
        self._unknown: dict[Hashable, dict[Hashable, G]] = {}

    def add(self, name: Hashable, group: G, required_keys: RequiredKeys) -> None:
        """File a group, called `name`, under all that it wants."""
        for registration, keys in required_keys.items():
            if keys is None:
                self._unknown.setdefault(registration, {})[name] = group
                continue
            for key in keys:
                self._by_key.setdefault((registration, key), {})[name] = group

    def discard(self, name: Hashable, required_keys: RequiredKeys) -> None:
        """Forget a group; `required_keys` as when it was added."""
        for registration, keys in required_keys.items():
            if keys is None:
                _discard(self._unknown, registration, name)
                continue
            for key in keys:
                _discard(self._by_key, (registration, key), name)

    def find(
        self, registration: Hashable, provided_keys: Collection[Hashable]
    ) -> dict[Hashable, G]:
        """The groups that want one of the keys, and those of which nobody knows; a new dict."""
        found = dict(self._unknown.get(registration, ()))
        by_key = self._by_key
        for key in provided_keys:
            groups = by_key.get((registration, key))
            if groups is not None:
                found.update(groups)
        return found

    def entries(self) -> set[tuple[Hashable, Hashable, Hashable]]:
        """(registration, key or None, name) of all that is filed, for `validate()`."""
        found = {
            (registration, key, name)
            for (registration, key), groups in self._by_key.items()
            for name in groups
        }
        found |= {
            (registration, None, name)
            for registration, groups in self._unknown.items()
            for name in groups
        }
        return found


K = TypeVar("K", bound=Hashable)


def _discard(index: dict[K, dict[Hashable, G]], key: K, name: Hashable) -> None:
    groups = index.get(key)
    # A collection of keys may name one twice.
    if groups is not None and groups.pop(name, None) is not None and not groups:
        del index[key]
