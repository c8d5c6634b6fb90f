"""Users who may not read all debug pages, and what they get instead: answers about one namespace.

Who may not get `/debug/explain` may still be allowed to get pods of a namespace. They get the pages
in `PAGES` for that namespace, and `restrict` removes from them

- the names of nodes, unless the user may list nodes;
- the names of pods of other namespaces, unless the user may get the pods of all;
- counts that tell how busy others are: statistics of the queue, positions in it, sequence numbers.

Names are removed wherever they stand, in fields and within texts, so what a plugin explains needs
no care of its own. A name that is also a part of a longer word with `-` or `.` is removed from it.
The names of the user's own pods stay. Numbers of nodes stay: the condition of the pod has them.
A text with a hole tells that the word is a name; whoever creates pods can find that out anyway,
with a node selector for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

HIDDEN: Final = "(hidden)"


def _of_pod(query: Mapping[str, str]) -> str:
    return query.get("pod", "").partition("/")[0]


def _of_namespace(query: Mapping[str, str]) -> str:
    return query.get("namespace", "")


PAGES: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "/debug/decisions": _of_pod,
    "/debug/explain": _of_pod,
    "/debug/queue": _of_namespace,
}
"""The pages that are served for one namespace, and the namespace that a query is about."""

PARAMETERS: Final = frozenset({"pod", "namespace", "nodes", "examples", "limit", "since"})
"""The parameters that such a page gets. Another one could be used to guess names."""

CODES: Final = frozenset(
    {"apiVersion", "kind", "state", "place", "status", "result", "plugin", "queue", "uid"}
)
"""Fields with values of a fixed set, or of the user's own pod, which are left as they are."""

COUNTED_PLACES: Final = {
    "active": "active",
    "backoff": "backoff",
    "unschedulable": "unschedulable",
    "gated": "gated",
    "in-flight": "in_flight",
}
"""Fields of the statistics by the place of a pod."""

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_FIELD: Final = re.compile(r"[A-Za-z_]+")
"""Names of fields and plugins; a key of another form is treated as a text."""

_RUNS: Final = re.compile(r"([^A-Za-z0-9]+)")
_WITHIN_NAMES: Final = re.compile(r"[-.]+")
_OF_A_NAMESPACE: Final = re.compile(
    r"(?<![A-Za-z0-9.-])([a-z0-9][a-z0-9-]*)/[A-Za-z0-9][A-Za-z0-9.-]*"
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A user who gets answers about one namespace."""

    namespace: str
    #: Whether the user may list nodes.
    nodes: bool = False
    #: Whether the user may get the pods of all namespaces.
    pods: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """The names in the cluster."""

    #: Names of nodes, and what else names them.
    nodes: Collection[str] = ()
    #: `namespace/name` of each pod.
    pods: Collection[str] = ()


def namespace_of(path: str, query: Mapping[str, str]) -> str:
    """Return the namespace that a request is about; empty if it is not about a single one.

    >>> namespace_of("/debug/explain", {"pod": "team-a/web"}), namespace_of("/debug/queue", {})
    ('team-a', '')
    """
    find = PAGES.get(path)
    found = "" if find is None else find(query)
    return found if _NAMESPACE.fullmatch(found) else ""


def restricted(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a page for one namespace gets, each once."""
    return {key: query[key] for key in PARAMETERS if key in query}


def restrict(page: Any, reader: Reader, names: Names) -> Any:
    """Return a page, decoded from JSON, with nothing that the reader may not know.

    Raises:
        ValueError: it is no page of the reader's namespace.
    """
    page = _of_one_namespace(page, reader.namespace)
    by_namespace: dict[str, set[str]] = {}
    for key in names.pods:
        namespace, _, name = key.partition("/")
        by_namespace.setdefault(namespace, set()).add(name)
    own = by_namespace.pop(reader.namespace, set())
    hidden = set() if reader.nodes else set(names.nodes)
    if reader.pods:
        by_namespace.clear()
    return _scrubbed(
        page, _Scrubber(hidden.union(*by_namespace.values()) - own, own, frozenset(by_namespace))
    )


def _of_one_namespace(content: Any, namespace: str) -> dict[str, Any]:
    """Keep the pods of the namespace, and remove counts of all pods."""
    page: dict[str, Any] = _without_counts(content)
    match page.get("kind"):
        case "QueueList":
            page["pods"] = [each for each in page["pods"] if each["namespace"] == namespace]
            page["statistics"] = _counted(page["statistics"], page["pods"])
        case "DecisionList":
            prefix = f"{namespace}/"
            page["decisions"] = [
                each for each in page["decisions"] if each["pod"].startswith(prefix)
            ]
        case "PodExplanation":
            if page["pod"]["namespace"] != namespace:
                raise ValueError("the pod is of another namespace")
        case other:
            raise ValueError(f"{other} is not served for one namespace")
    return page


def _without_counts(value: Any) -> Any:
    if isinstance(value, dict):
        hidden: dict[str, Any] = {"position": None, "seq": 0}
        return {
            key: hidden[key] if key in hidden else _without_counts(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_without_counts(each) for each in value]
    return value


def _counted(statistics: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return statistics of these pods alone; what cannot be told from them is 0 or empty."""
    counts: dict[str, Any] = {key: _empty(value) for key, value in statistics.items()}
    for pod in pods:
        key = COUNTED_PLACES.get(str(pod["place"]))
        if key in counts:
            counts[key] += 1
    return counts


def _empty(value: Any) -> Any:
    return None if value is None else type(value)()


class _Scrubber:
    """Removal of names from texts."""

    def __init__(self, hidden: set[str], own: set[str], namespaces: frozenset[str]) -> None:
        self._hidden = hidden
        self._own = own
        self._namespaces = namespaces
        #: Runs of letters and digits in the longest name.
        self._longest = max((len(_RUNS.split(each)) // 2 + 1 for each in hidden | own), default=0)

    def text(self, text: str) -> str:
        """Return a text without the names."""
        if self._namespaces:
            text = _OF_A_NAMESPACE.sub(self._pod, text)
        if not self._hidden:
            return text
        runs, shown, position = _RUNS.split(text), [], 0
        while position < len(runs):
            end, replaced = self._name_at(runs, position)
            shown.append(HIDDEN if replaced else "".join(runs[position:end]))
            shown.extend(runs[end : end + 1])
            position = end + 1
        return "".join(shown)

    def _pod(self, found: re.Match[str]) -> str:
        return HIDDEN if found[1] in self._namespaces else found[0]

    def _name_at(self, runs: list[str], start: int) -> tuple[int, bool]:
        """Return the end of the longest name that begins here, and whether it is to be hidden."""
        end = start + 1
        ends = [end]
        while end + 1 < len(runs) and len(ends) < self._longest:
            if not _WITHIN_NAMES.fullmatch(runs[end]):
                break
            end += 2
            ends.append(end)
        for end in reversed(ends):
            name = "".join(runs[start:end]).lower()
            if name in self._own or name in self._hidden:
                return end, name not in self._own
        return start + 1, False


def _scrubbed(value: Any, scrubber: _Scrubber) -> Any:
    if isinstance(value, str):
        return scrubber.text(value)
    if isinstance(value, list):
        return [_scrubbed(each, scrubber) for each in value]
    if isinstance(value, dict):
        return {
            key if _FIELD.fullmatch(key) else scrubber.text(key): (
                each if key in CODES and isinstance(each, str) else _scrubbed(each, scrubber)
            )
            for key, each in value.items()
        }
    return value
