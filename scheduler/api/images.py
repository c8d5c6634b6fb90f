"""Image references of a pod, normalised as nodes report them.

Upstream: `image_locality.go: normalizedImageName`. Only the tag is completed; registries are not
canonicalised (`nginx` is not `docker.io/library/nginx`).
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.api.pod import PodSpec


class PodImages(NamedTuple):
    """The images of a pod, for image locality."""

    names: tuple[str, ...]
    """Normalised references of init containers, containers and image volumes; duplicates stay."""

    containers: int
    """Number of init containers and containers, without image volumes; it bounds the score."""


def normalized_image(reference: str) -> str:
    """Add `:latest` to a reference that has neither tag nor digest.

    >>> normalized_image("host:5000/app"), normalized_image("app@sha256:0123")
    ('host:5000/app:latest', 'app@sha256:0123')
    """
    return reference if reference.rfind(":") > reference.rfind("/") else f"{reference}:latest"


def pod_images(spec: PodSpec) -> PodImages:
    """Return every image that the pod would need on its node."""
    containers = (*spec.init_containers, *spec.containers)
    names = [normalized_image(each.image) for each in containers]
    names += [normalized_image(each.image.reference) for each in spec.volumes if each.image]
    return PodImages(tuple(names), len(containers))
