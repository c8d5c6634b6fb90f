"""Aspects of a vector: what is compared, one by one, and what counts as agreement.

An aspect that a vector does not record does not apply to it. A plugin that does not exist here
makes an aspect *partial* where kube-scheduler's own plugin returned Skip: the rest is compared, and
the table counts the aspect as partial. Where that plugin took part, its absence is a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from devtools.conformance.observing import NOMINATED, Observation, anonymous
from devtools.conformance.reading import Vector
from devtools.conformance.units import Difference
from devtools.conformance.upstream_faults import exempt_aspects

NOT_COMPUTED: Final = "<not computed>"
NO_PLUGIN: Final = "<no such plugin>"

Record = Mapping[str, Any]


@dataclass(slots=True)
class Compared:
    """One aspect of one vector."""

    differences: list[Difference] = field(default_factory=list)
    #: Missing plugins that sat out, so that their part was not compared.
    without: set[str] = field(default_factory=set)

    def equal(self, name: str, expected: object, actual: object) -> None:
        """Note a difference unless the two are equal."""
        if _canonical(expected) != _canonical(actual):
            self.differences.append(Difference(name, expected, actual))

    def equal_maps(self, name: str, expected: Record, actual: Record, absent: object) -> None:
        """Compare two maps entry by entry."""
        for key in sorted({*expected, *actual}):
            self.equal(f"{name}[{key}]", expected.get(key, absent), actual.get(key, absent))


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a vector, and which plugins we lack."""

    expected: Record
    observation: Observation
    missing: Collection[str]

    @property
    def actual(self) -> Record:
        """Ours, in the form of `expected`."""
        return self.observation.actual


Compare = Callable[[Sides], Compared | None]
"""None: the vector does not record the aspect."""


def compare(
    vector: Vector, observation: Observation, aspects: Sequence[str], missing: Collection[str]
) -> dict[str, Compared]:
    """Compare the named aspects that apply to the vector and hold no fault of kube-scheduler."""
    sides = Sides(vector["expected"], observation, missing)
    exempt = exempt_aspects(vector.get("id", ""))
    found = ((name, ASPECTS[name](sides)) for name in aspects if name not in exempt)
    return {name: compared for name, compared in found if compared is not None}


def _canonical(value: object) -> object:
    """Reasons are a multiset, everything else is compared as it is."""
    if isinstance(value, Mapping):
        return {
            key: sorted(each) if key == "reasons" else _canonical(each)
            for key, each in value.items()
        }
    return value


# -- values that are simply equal or not ---------------------------------------------------------


def _value(key: str, default: object = NOT_COMPUTED) -> Compare:
    def check(sides: Sides) -> Compared | None:
        if key not in sides.expected and key not in sides.actual:
            return None
        compared = Compared()
        compared.equal(key, sides.expected.get(key, default), sides.actual.get(key, default))
        return compared

    return check


def _message(sides: Sides) -> Compared | None:
    if "message" not in sides.expected and "message" not in sides.actual:
        return None
    compared = Compared()
    expected, actual = sides.expected.get("message"), sides.actual.get("message")
    compared.equal("message", expected, _alike(expected, actual))
    return compared


def _alike(expected: str | None, actual: str | None) -> str | None:
    """Return our text, without the nominated node if the vector's has none."""
    return anonymous(actual) if actual and expected and NOMINATED in expected else actual


def _message_prefix(sides: Sides) -> Compared | None:
    message = sides.expected.get("message")
    ours = sides.observation.message_prefix
    if message is None and ours is None:
        return None
    post_filter = sides.expected.get("postFilter", {})
    if message is not None and post_filter.get("reasons"):
        message = message.removesuffix(" " + post_filter["reasons"][0])
    compared = Compared()
    compared.equal("message without PostFilter's part", message, ours)
    return compared


def _feasible(sides: Sides) -> Compared:
    compared = Compared()
    compared.equal(
        "feasibleNodes", sides.expected["feasibleNodes"], sides.actual.get("feasibleNodes")
    )
    return compared


# -- PreFilter and Filter ------------------------------------------------------------------------


def _pre_filter(sides: Sides) -> Compared | None:
    expected, actual = sides.expected.get("preFilter"), sides.actual.get("preFilter")
    if expected is None:
        return None
    compared = Compared()
    actual = actual or {}
    for key in ("code", "plugin", "reasons", "nodeNames", "narrowedBy"):
        compared.equal(f"preFilter.{key}", _sorted(expected.get(key)), _sorted(actual.get(key)))
    return compared


def _sorted(value: object) -> object:
    return sorted(value) if isinstance(value, list) else value


def _pre_filter_plugins(sides: Sides) -> Compared | None:
    if "preFilter" not in sides.expected:
        return None
    expected = sides.expected["preFilter"]["plugins"]
    actual = sides.actual.get("preFilter", {}).get("plugins", {})
    compared = Compared()
    for name in sorted({*expected, *actual}):
        theirs = expected.get(name, NOT_COMPUTED)
        if name in sides.missing:
            if theirs["code"] == "Skip":
                compared.without.add(name)
            else:
                compared.equal(f"preFilter.plugins[{name}]", theirs, NO_PLUGIN)
            continue
        ours = actual.get(name, NOT_COMPUTED)
        compared.equal(f"preFilter.plugins[{name}]", theirs, ours)
    return compared


def _filter_plugins(sides: Sides) -> Compared | None:
    if "filter" not in sides.expected:
        return None
    compared = Compared()
    compared.without |= _skipped(sides)
    expected = sides.expected["filter"]["plugins"]
    actual = sides.actual.get("filter", {}).get("plugins", {})
    for name in sorted({*expected, *actual}):
        if name not in expected or name not in actual:
            absent = NO_PLUGIN if name in sides.missing else NOT_COMPUTED
            theirs, ours = expected.get(name, NOT_COMPUTED), actual.get(name, absent)
            compared.differences.append(Difference(f"filter.plugins[{name}]", theirs, ours))
            continue
        compared.equal_maps(
            f"filter.plugins[{name}]", expected[name], actual[name], {"code": "Success"}
        )
    return compared


def _filter_nodes(sides: Sides) -> Compared | None:
    expected = sides.expected.get("filter", {}).get("nodes")
    actual = sides.actual.get("filter", {}).get("nodes")
    if expected is None and actual is None:
        return None
    compared = Compared()
    compared.without |= _skipped(sides)
    compared.equal_maps("filter.nodes", expected or {}, actual or {}, NOT_COMPUTED)
    return compared


def _skipped(sides: Sides) -> set[str]:
    """Return the missing plugins whose PreFilter returned Skip."""
    plugins = sides.expected.get("preFilter", {}).get("plugins", {})
    return {
        name
        for name, theirs in plugins.items()
        if name in sides.missing and theirs["code"] == "Skip"
    }


# -- Score ---------------------------------------------------------------------------------------


def _score_skipped(sides: Sides) -> Compared | None:
    score = _score_sides(sides)
    if score is None:
        return None
    expected, actual = score
    compared = Compared(without=_sat_out(sides))
    theirs = [name for name in expected.get("skipped", ()) if name not in sides.missing]
    compared.equal("score.skipped", theirs, actual.get("skipped", []))
    return compared


def _score_plugins(key: str) -> Compare:
    def check(sides: Sides) -> Compared | None:
        score = _score_sides(sides)
        if score is None:
            return None
        compared = Compared(without=_sat_out(sides))
        expected, actual = (side.get("plugins", {}) for side in score)
        for name in sorted({*expected, *actual}):
            absent = NO_PLUGIN if name in sides.missing else NOT_COMPUTED
            theirs = expected[name][key] if name in expected else NOT_COMPUTED
            ours = actual[name][key] if name in actual else absent
            compared.equal(f"score.{name}.{key}", theirs, ours)
        return compared

    return check


def _score_total(sides: Sides) -> Compared | None:
    score = _score_sides(sides)
    if score is None:
        return None
    expected, actual = score
    compared = Compared(without=_sat_out(sides))
    compared.equal("score.total", expected.get("total"), actual.get("total"))
    if "error" in actual:
        compared.equal("score.error", "", actual["error"])
    return compared


def _score_sides(sides: Sides) -> tuple[Record, Record] | None:
    expected, actual = sides.expected.get("score"), sides.actual.get("score")
    return None if expected is None and actual is None else (expected or {}, actual or {})


def _sat_out(sides: Sides) -> set[str]:
    skipped = sides.expected.get("score", {}).get("skipped", ())
    return {name for name in skipped if name in sides.missing}


def _selected(sides: Sides) -> Compared | None:
    compared = _value("selectedNodeOptions")(sides)
    if compared is not None:
        compared.without |= _sat_out(sides)
    return compared


# -- PostFilter ----------------------------------------------------------------------------------


def _post_filter(sides: Sides) -> Compared | None:
    expected, actual = sides.expected.get("postFilter"), sides.actual.get("postFilter")
    if expected is None and actual is None:
        return None
    compared = Compared()
    if expected is None or actual is None:
        compared.equal("postFilter", expected or NOT_COMPUTED, actual or NOT_COMPUTED)
        return compared
    for key in ("code", "plugin", "clearsNomination"):
        compared.equal(f"postFilter.{key}", expected.get(key), actual.get(key))
    theirs, ours = ("\n".join(each.get("reasons", ())) for each in (expected, actual))
    compared.equal("postFilter.reasons", theirs, _alike(theirs, ours))
    options, node = expected.get("nominatedNodeOptions", []), actual.get("nominatedNode")
    if (node not in options) if options else (node is not None):
        compared.differences.append(Difference("postFilter.nominatedNodeOptions", options, node))
    for key in ("candidates", "rejected"):
        if key in expected:
            ours = actual.get(key, NOT_COMPUTED)
            compared.equal(f"postFilter.{key}", expected[key], ours)
    return compared


# -- devices -------------------------------------------------------------------------------------


def _devices(sides: Sides) -> Compared | None:
    expected, actual = sides.expected.get("dra"), sides.actual.get("dra")
    if expected is None and actual is None:
        return None
    compared = Compared()
    theirs, ours = dict(expected or {}), dict(actual or {})
    options, chosen = theirs.pop("postFilterOptions", [[]]), ours.pop("postFilter", [])
    if chosen not in options:
        compared.differences.append(Difference("dra.postFilterOptions", options, chosen))
    compared.equal_maps("dra", theirs, ours, NOT_COMPUTED)
    return compared


# -- our own consistency -------------------------------------------------------------------------


def _none_of(attribute: str) -> Compare:
    def check(sides: Sides) -> Compared:
        compared = Compared()
        for problem in getattr(sides.observation, attribute):
            compared.equal(attribute, "no disagreement", problem)
        return compared

    return check


ASPECTS: Final[Mapping[str, Compare]] = {
    "preEnqueue": _value("preEnqueue"),
    "preFilter.combined": _pre_filter,
    "preFilter.plugins": _pre_filter_plugins,
    "filter.plugins": _filter_plugins,
    "filter.nodes": _filter_nodes,
    "feasibleNodes": _feasible,
    "volumePlan": _value("volumePlan"),
    "score.skipped": _score_skipped,
    "score.weight": _score_plugins("weight"),
    "score.raw": _score_plugins("raw"),
    "score.normalized": _score_plugins("normalized"),
    "score.total": _score_total,
    "selectedNodeOptions": _selected,
    "outcome": _value("outcome"),
    "message-prefix": _message_prefix,
    "message": _message,
    "unschedulablePlugins": _value("unschedulablePlugins", []),
    "postFilter": _post_filter,
    "dra": _devices,
    "forms": _none_of("forms"),
    "reuse": _none_of("reuse"),
}
"""Every aspect, in the order of the cycle. Names with a dot belong to the group before it.

`message` is the whole text; `message-prefix` is the text without what PostFilter plugins wrote.
`forms` and `reuse` are not in the vectors: scalar form, columnar form and the engine must agree,
and remembered results must equal fresh ones.
"""


def group(aspect: str) -> str:
    """The group an aspect belongs to: its column in the table."""
    return aspect.partition(".")[0]


GROUPS: Final = tuple(dict.fromkeys(group(each) for each in ASPECTS))


def select_aspects(wanted: Sequence[str], unwanted: Sequence[str] = ()) -> list[str]:
    """Aspects by name or group. ValueError names what does not exist."""
    unknown = [each for each in (*wanted, *unwanted) if each not in ASPECTS and each not in GROUPS]
    if unknown:
        known = ", ".join(dict.fromkeys((*GROUPS, *ASPECTS)))
        raise ValueError(f"no aspect {', '.join(unknown)}; there are {known}")
    return [
        each
        for each in ASPECTS
        if (not wanted or each in wanted or group(each) in wanted)
        and each not in unwanted
        and group(each) not in unwanted
    ]


def differences(compared: Mapping[str, Compared]) -> Iterator[tuple[str, Difference]]:
    """(aspect, difference) of everything that differs."""
    for aspect, each in compared.items():
        for difference in each.differences:
            yield aspect, difference
