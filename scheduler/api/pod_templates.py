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
class PodCount:
    """The number of pods that a controller makes at the same time, and the field that says so."""

    number: int
    field: str = ""
    """Such as `spec.replicas`; empty: none says it."""


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


def pod_count(manifest: Any) -> PodCount:
    """Return how many pods a controller makes at the same time; 1 of all else.

    Raises:
        NoPodError: a field that says so is no number.

    >>> pod_count({"kind": "Deployment", "spec": {"replicas": 7, "template": {"spec": {}}}})
    PodCount(number=7, field='spec.replicas')
    >>> job = {"spec": {"parallelism": 5, "completions": 3, "template": {"spec": {}}}}
    >>> pod_count(job).number, pod_count({"kind": "CronJob", "spec": {"jobTemplate": job}})
    (3, PodCount(number=3, field='spec.jobTemplate.spec.completions'))
    """
    paths = _TEMPLATES if isinstance(manifest, Mapping) else ()
    path = next((each for each in paths if _at(manifest, each) is not None), None)
    if path is None:
        return PodCount(1)
    above: Any = manifest
    for name in path[:-1]:
        above = above[name]
    found = []
    for name in ("replicas", "parallelism", "completions"):
        field, value = ".".join((*path[:-1], name)), above.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise NoPodError(f"has {field} {str(value)[:40]!r}, which must be a number from 0")
        found.append(PodCount(value, field))
    if [each.field.rpartition(".")[2] for each in found] == ["completions"]:
        # One after the other.
        return PodCount(1)
    return min(found, key=lambda each: each.number, default=PodCount(1))


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
