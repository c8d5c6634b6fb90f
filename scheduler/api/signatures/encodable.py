"""Pods in the form in which they are sent, written and changed."""

from __future__ import annotations

import msgspec

from scheduler.api.pod import Pod, PodSpec


def encodable(pod: Pod) -> Pod:
    """Return an equal pod that msgspec encodes: without its signature, spec and labels unpacked.

    An interned pod may have a `PackedSpec` and `PackedLabels`. The pin is left out, since it is
    derived from the affinity when the pod is interned again.
    """
    metadata, spec = pod.metadata, pod.spec
    if type(metadata.labels) is not dict:
        metadata = msgspec.structs.replace(metadata, labels=dict(metadata.labels.items()))
    if type(spec) is not PodSpec:
        spec = PodSpec(**{name: getattr(spec, name) for name in PodSpec.__struct_fields__})
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, interned=None, pin="")
