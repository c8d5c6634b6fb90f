"""The pod of a manifest: a Pod, or the one that a controller makes of its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_TEMPLATES: Final = (
    ("spec", "template"),
    ("spec", "jobTemplate", "spec", "template"),
    ("template",),
)
"""Where controllers, a CronJob and a PodTemplate have the template of their pods."""


class NoPodError(ValueError):
    """A manifest has no pod; the text says what it is, and what to give."""


@dataclass(frozen=True, slots=True)
class PodOf:
    """A pod, and what of its manifest it does not have."""

    #: With apiVersion, kind, and metadata that is an object; its name may be missing.
    pod: dict[str, Any]
    #: A sentence, or nothing.
    left_out: str = ""


def pod_of(manifest: Any) -> PodOf:
    """Return the pod of a manifest, under the name and in the namespace of its controller.

    Raises:
        NoPodError: it has none.

    >>> job = {"spec": {"template": {"spec": {"containers": []}}}}
    >>> cron = {"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"jobTemplate": job}}
    >>> pod_of(cron).pod["metadata"], pod_of(cron).pod["spec"]
    ({'name': 'a'}, {'containers': []})
    """
    if not isinstance(manifest, Mapping):
        raise NoPodError("is no Kubernetes object; give a Pod, or a controller with a template")
    own = manifest.get("metadata") or {}
    template = next(filter(None, (_at(manifest, path) for path in _TEMPLATES)), None)
    if template is not None:
        inner = template.get("metadata") or {}
        _check_objects(own, inner, template.get("spec") or {})
        names = {key: own[key] for key in ("name", "namespace") if own.get(key)}
        made = {**template, "apiVersion": "v1", "kind": "Pod", "metadata": {**inner, **names}}
        return PodOf(made, _left_out(manifest["spec"]) if "spec" in manifest else "")
    kind, spec = manifest.get("kind", ""), manifest.get("spec")
    if kind and kind != "Pod":
        raise NoPodError(
            f"is a {str(kind)[:60]}, which has no template of its pods at spec.template; "
            "give a Pod, or a controller with one"
        )
    if not kind and not isinstance(spec, Mapping):
        raise NoPodError("has neither kind nor spec; give a Pod, or a controller with a template")
    _check_objects(own, spec or {})
    return PodOf({**manifest, "apiVersion": "v1", "kind": "Pod", "metadata": dict(own)})


def _at(manifest: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any] | None:
    found: Any = manifest
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    # Other kinds have templates of other things, such as a name.
    return found if isinstance(found, Mapping) and "spec" in found else None


def _check_objects(*values: Any) -> None:
    if not all(isinstance(each, Mapping) for each in values):
        raise NoPodError("has no manifest of a pod: metadata and spec must be objects")


def _left_out(spec: Mapping[str, Any]) -> str:
    if spec.get("volumeClaimTemplates"):
        return "the volumes of volumeClaimTemplates are left out"
    return ""
