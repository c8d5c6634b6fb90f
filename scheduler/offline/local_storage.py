"""Pods whose data are on the disk of their node: they lose them when they move.

The scheduler does not read these volumes, so that they are looked for in the manifest. Volumes in
memory and PersistentVolumes are none of them: of the latter the scheduler knows the node.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_MARKS: Final = (b'"emptyDir"', b'"hostPath"')


class _EmptyDir(msgspec.Struct):
    medium: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    empty_dir: _EmptyDir | None = None
    host_path: dict[str, Any] | None = None


class _Spec(msgspec.Struct):
    volumes: tuple[_Volume, ...] | None = ()


class _Pod(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode: Final = msgspec.json.Decoder(_Pod).decode


def keeps_data_on_its_node(manifest: bytes | msgspec.Raw) -> bool:
    """Whether a pod, as JSON, has a volume `emptyDir` that is not in memory, or `hostPath`.

    >>> keeps_data_on_its_node(b'{"spec": {"volumes": [{"emptyDir": {}}]}}')
    True
    >>> keeps_data_on_its_node(b'{"spec": {"volumes": [{"emptyDir": {"medium": "Memory"}}]}}')
    False
    """
    text = bytes(manifest)
    if not any(mark in text for mark in _MARKS):
        return False
    try:
        volumes = _decode(text).spec.volumes or ()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return True  # Nobody should move a pod because its volumes cannot be read.
    return any(
        each.host_path is not None or (each.empty_dir is not None and each.empty_dir.medium == "")
        for each in volumes
    )
