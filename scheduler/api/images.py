"""Image references of a pod, normalised as nodes report them.

Upstream: `image_locality.go: normalizedImageName`. Only the tag is completed; registries are not
canonicalised (`nginx` is not `docker.io/library/nginx`).
"""

from __future__ import annotations

from scheduler.api.pod import PodSpec


def normalized_image(reference: str) -> str:
    """Add `:latest` to a reference that has neither tag nor digest.

    >>> normalized_image("host:5000/app"), normalized_image("app@sha256:0123")
    ('host:5000/app:latest', 'app@sha256:0123')
    """
    return reference if reference.rfind(":") > reference.rfind("/") else f"{reference}:latest"


def pod_images(spec: PodSpec) -> tuple[str, ...]:
    """Return the normalised references of init containers, containers and image volumes.

    A reference is there as often as it is used.
    """
    containers = (*spec.init_containers, *spec.containers)
    names = [normalized_image(each.image) for each in containers]
    names += [normalized_image(each.image.reference) for each in spec.volumes if each.image]
    return tuple(names)
