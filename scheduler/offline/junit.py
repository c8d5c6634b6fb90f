"""JUnit XML of `kubestow simulate --junit`, which CI systems show beside their tests.

A test suite for each run, and a test case for each assertion about it. The form is the one that the
readers of Jenkins, GitLab and GitHub Actions share: https://github.com/testmoapp/junitxml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from scheduler.offline.assertions import Check
    from scheduler.offline.experiment import SimulatedRun

ENDS: Final = "runs to its end"
PLACED: Final = "every pod has a node"
"""The test case of a run without assertions."""

_NAME: Final = re.compile(r"\w+")
_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have, not even escaped."""


def junit(runs: Sequence[SimulatedRun], checks: Sequence[Check]) -> str:
    """Return the XML of runs, and of the outcome of the assertions about them."""
    suites = ET.Element("testsuites", name="kubestow simulate")
    for run in runs:
        name = _text(f"{run.name}, seed {run.seed}")
        suite = ET.SubElement(suites, "testsuite", name=name)
        case = _case(suite, name, ENDS)
        if run.error:
            ET.SubElement(case, "error", message=_text(run.error))
        own = [each for each in checks if (each.run, each.seed) == (run.name, run.seed)]
        for check in own:
            case = _case(suite, name, _text(check.text))
            if not check.holds:
                ET.SubElement(case, "failure", message=_values(check.text, run))
        if not own and not checks and not run.error:
            case = _case(suite, name, PLACED)
            if waiting := run.figures["waiting"]:
                ET.SubElement(case, "failure", message=f"waiting is {waiting:.6g}")
        _count(suite)
    _count(suites)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _text(text: str) -> str:
    return _NO_XML.sub("?", text)


def _case(suite: ET.Element, run: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"kubestow simulate: {run}", name=name)


def _values(text: str, run: SimulatedRun) -> str:
    """Return the values of the figures that an assertion names."""
    names = dict.fromkeys(each for each in _NAME.findall(text) if each in run.figures)
    return ", ".join(f"{each} is {run.figures[each]:.6g}" for each in names) or "no figures"


def _count(element: ET.Element) -> None:
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        element.set(attribute, str(sum(1 for _ in element.iter(tag))))
