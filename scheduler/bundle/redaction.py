"""Redaction of a bundle: names, namespaces, label keys and values become random-looking words.

The same word becomes the same replacement everywhere in a bundle, so that selectors still match;
another bundle has another salt. In objects every text is replaced that is not known to be harmless;
in all other lines those texts that an object has, within messages as well.

Kept are label keys of Kubernetes' own domains, resource names, amounts, times, UIDs, the names of
profiles and plugins, and words of `_KEPT_TEXTS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.api.images import normalized_image
from scheduler.bundle.format import CONFIGURATION, DELTA, HEADER, METRICS, OBJECT
from scheduler.bundle.objects import in_domains


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WELL_KNOWN: Final = ("kubernetes.io", "k8s.io", "kubestow.io", "karpenter.sh")

_KEPT_TEXTS: Final = _words(
    """
    true false default kube-system kube-public kube-node-lease linux windows amd64 arm64 arm
    ppc64le s390x 0.0.0.0 ::
    """
)

_ENUMERATED: Final = _words(
    """
    apiVersion kind operator effect phase type status protocol uid resourceVersion
    creationTimestamp deletionTimestamp lastTransitionTime lastProbeTime startTime
    whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy unhealthyPodEvictionPolicy
    preemptionPolicy restartPolicy schedulerName reason volumeBindingMode accessModes volumeMode
    scopeName scopes action minAvailable maxUnavailable provisioner driver declaredFeatures
    fallback policyType finalizers
    """
)
"""Fields of objects whose texts are names of Kubernetes, not of users."""

_AMOUNTS: Final = _words(
    """
    requests limits allocatable capacity hard used overhead allocatedResources storageCapacity
    maximumVolumeSize
    """
)
_LABELS: Final = frozenset(("labels", "matchLabels", "nodeSelector", "selector", "parameters"))

_PLAIN_FIELDS: Final = _words(
    """
    place step uid postFilter post_filter last_event last_hint unschedulable_plugins
    pending_plugins gating_plugin rejectedBy pendingBy plugin profile type plural queue event
    hint_plugin result status unjudgeable
    """
)
"""Fields of other lines whose texts are codes, labels of events, or names of plugins."""

_HARMLESS: Final = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)|[-+]?[\d.]+(?:[munkKMGTPE]|[KMGTPE]i)?%?"
)
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?")
_VALUE: Final = re.compile(r'="([^"]*)"')

_PROSE: Final = _words(
    """
    a about after all an and any are as at available be because been before but by can cannot
    cpu did do does error fit fits for found from had has have in is it its many match memory
    more no node nodes not of on one or out pod pods preemption quota than that the there they
    this to too used victims wait waiting wants was were which will with
    """
)
"""Words of our own messages: a name like these stays in a text, where it says nothing."""


class Redactor:
    """Learns from all objects of a bundle first, and redacts its lines then."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        #: Names of objects, and texts in them, to their replacements.
        self._known: dict[str, str] = {}

    # -- first pass ------------------------------------------------------------------------------

    def learn(self, section: str, data: Any) -> None:
        """Take note of the texts in an object."""
        obj = data.get("object") if section == DELTA else data if section == OBJECT else None
        if not isinstance(obj, dict):
            return
        self._learn_ephemeral(obj)
        self._object(obj, self._replace)

    def _learn_ephemeral(self, obj: Mapping[str, Any]) -> None:
        """Give claims of ephemeral volumes names that are still made of those of their pods."""
        pod = (obj.get("metadata") or {}).get("name")
        for volume in (obj.get("spec") or {}).get("volumes") or ():
            if isinstance(volume, dict) and volume.get("ephemeral") is not None and pod:
                name = volume.get("name", "")
                made = f"{self._replacement(pod)}-{self._replacement(name)}"
                self._known[f"{pod}-{name}"] = made

    # -- second pass -----------------------------------------------------------------------------

    def redact(self, section: str, data: Any) -> Any:
        """Return the data of a line without names."""
        if section == OBJECT:
            return self._object(data, self._replace)
        if section == DELTA:
            return {**data, "object": self._object(data["object"], self._replace)}
        if section == HEADER:
            return {**data, "redacted": True}
        if section == METRICS:
            return {**data, "text": _VALUE.sub(self._label_value, data.get("text", ""))}
        if section == CONFIGURATION:
            return self._configuration(data)
        return self._line("", data)

    def _configuration(self, data: dict[str, Any]) -> dict[str, Any]:
        """Redact the arguments of plugins; the rest names nothing of the cluster."""
        configuration = dict(data["configuration"])
        configuration["profiles"] = [
            {
                **profile,
                "pluginConfig": [
                    {**each, "args": self._line("", each.get("args"))}
                    for each in profile.get("pluginConfig") or ()
                ],
            }
            for profile in configuration.get("profiles") or ()
        ]
        return {**data, "configuration": configuration}

    def _line(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return value if name in _PLAIN_FIELDS else self.text(value)
        if isinstance(value, list):
            return [self._line(name, each) for each in value]
        if isinstance(value, dict):
            # What plugins keep about a pod may be by label key.
            return {
                (self._known.get(key, key) if name in ("soft", "memory") else key): self._line(
                    key, each
                )
                for key, each in value.items()
            }
        return value

    def text(self, text: str) -> str:
        """Return a text with every known name in it replaced."""
        known = self._known.get(text)
        return _WORD.sub(self._word, text) if known is None else known

    def _word(self, match: re.Match[str]) -> str:
        word = match.group()
        if word in _PROSE:
            return word
        known = self._known.get(word)
        if known is not None:
            return known
        if "/" in word:
            return "/".join(self._known.get(each, each) for each in word.split("/"))
        return word

    def _label_value(self, match: re.Match[str]) -> str:
        return f'="{self._known.get(match.group(1), match.group(1))}"'

    # -- objects ---------------------------------------------------------------------------------

    def _object(self, value: Any, replace: Callable[[str], str], name: str = "") -> Any:
        if isinstance(value, str):
            if name in _ENUMERATED:
                return value
            if name == "message":
                return self.text(value)
            return self._image(value) if name in ("image", "names", "reference") else replace(value)
        if isinstance(value, list):
            return [self._object(each, replace, name) for each in value]
        if not isinstance(value, dict) or name in _AMOUNTS:
            return value
        if name == "annotations":
            return {key: self._annotation(each, replace) for key, each in value.items()}
        if name in _LABELS and all(isinstance(each, str) for each in value.values()):
            return {replace(key): replace(each) for key, each in value.items()}
        return {key: self._object(each, replace, key) for key, each in value.items()}

    def _image(self, text: str) -> str:
        """Redact a reference, with a tag, so that pods and nodes still name the same image."""
        return f"{self._replacement(normalized_image(text))}:x"

    def _annotation(self, value: str, replace: Callable[[str], str]) -> str:
        """Redact one of the few annotations that scheduling reads: a name, or a text with names."""
        return replace(value) if _WORD.fullmatch(value) else self.text(value)

    def _replace(self, text: str) -> str:
        if not text or text in _KEPT_TEXTS or _HARMLESS.fullmatch(text):
            return text
        known = self._known.get(text)
        if known is None:
            kept = "/" in text and in_domains(text.partition("/")[0], _WELL_KNOWN)
            known = self._known[text] = text if kept else self._replacement(text)
        return known

    def _replacement(self, text: str) -> str:
        """Return a word that may be a name, a label key and a label value."""
        if not text or text in _KEPT_TEXTS:
            return text
        digest = hmac.new(self._salt, text.encode("utf-8", "replace"), hashlib.sha256)
        return f"x{digest.hexdigest()[:12]}"
