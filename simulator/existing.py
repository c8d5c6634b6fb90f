"""The objects of the store, as `scheduler.api.stored` looks them up for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.client.resources import RESOURCES
from scheduler.client.resources import Resource as TypedResource
from simulator.store import Store

_TABLES: Final[Mapping[str, str]] = {
    plural: f"{plural}.{typed.group}" if typed.group else plural
    for plural, typed in RESOURCES.items()
}


class InStore:
    """Everything is known here."""

    def __init__(self, store: Store, enabled: Callable[[str], bool]) -> None:
        """`enabled` says whether a feature gate is on."""
        self._store, self.enabled = store, enabled

    def get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        """Return a typed object; None if there is none."""
        found = self._store.get(_TABLES[plural], namespace, name)
        return None if found is None else _typed(RESOURCES[plural], found.obj)

    def every(self, plural: str) -> Iterator[Any]:
        """Yield all objects of a resource."""
        if self._store.count(_TABLES[plural]):
            for found in self._store.items(_TABLES[plural]):
                yield _typed(RESOURCES[plural], found.obj)

    def version(self) -> int:
        """Return the version of the store, which changes more often than it would have to."""
        return self._store.rv

    def known(self, _plural: str) -> bool:
        """Return True."""
        return True


def _typed(resource: TypedResource[Any], obj: Mapping[str, Any]) -> Any:
    return msgspec.convert(obj, resource.type, strict=False)
