"""Code in the documents is code that runs: it is executed here, or stands in an example verbatim.

A comment before a fence says which: `<!-- run -->`, or the path of the file that holds the text.
Tutorials are executed block by block: see `tests/envtest/test_tutorials.py`.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from config import load_configuration
from devtools.markdown import Block, blocks
from examples.gate_until import not_before
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.framework import Registry

ROOT: Final = Path(__file__).parents[3]
DOCUMENTS: Final = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
LINK: Final = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


SNIPPETS: Final = [each for path in DOCUMENTS for each in blocks(path, ROOT)]
QUOTED: Final = [each for each in SNIPPETS if "/" in each.mark and each.language != "sh"]
TUTORIALS: Final = [each for each in SNIPPETS if each.document.startswith("docs/tutorials/")]
"""Executed as a whole by `tests/envtest/test_tutorials.py`."""


def anchors(path: Path) -> set[str]:
    """Anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("snippet", QUOTED, ids=str)
def test_quoted_code_stands_in_its_file(snippet: Block) -> None:
    assert snippet.text in (ROOT / snippet.mark).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("document", "plugin"),
    [
        ("README.md", "RackFilter"),
        ("docs/plugins.md", "RackFilter"),
        ("docs/plugin-reference.md", "Licences"),
        ("docs/coming-from-go.md", "AvoidRacks"),
    ],
)
def test_python_in_a_document_runs_and_its_tests_pass(document: str, plugin: str) -> None:
    names: dict[str, Any] = {}
    for each in SNIPPETS:
        if each.document == document and each.language == "python" and each not in QUOTED:
            exec(compile(each.text, f"{document}:{each.line}", "exec"), names)
    assert names[plugin].name.endswith(plugin)
    for name, function in list(names.items()):
        if name.startswith("test_"):
            function()


def test_the_offline_world_of_the_document_answers_as_described(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (block,) = (
        each
        for each in SNIPPETS
        if each.document == "docs/simulate.md" and each.language == "python"
    )
    exec(compile(block.text, f"docs/simulate.md:{block.line}", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("6 placed, 2 wait\ndefault/web-7 waits, unschedulable: 0/3 nodes")
    assert "6 more small ones fit: {'node-0': 2, 'node-1': 2, 'node-2': 2}" in printed
    assert printed.endswith("with another node: larger\n")


def test_every_python_block_says_where_it_is_tested() -> None:
    unmarked = [
        str(each)
        for each in SNIPPETS
        if each.language == "python"
        and not each.mark
        and each not in TUTORIALS
        and each.document != "README.md"
    ]
    assert not unmarked


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        path = (document.parent / target) if target else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(f"{target}#{anchor}")
    assert not broken


def test_a_reader_is_told_the_name_of_each_file() -> None:
    titled = [each for each in TUTORIALS if each.title]
    assert titled
    for each in titled:
        text = (ROOT / each.document).read_text(encoding="utf-8")
        assert f"this as `{each.title}`" in text, str(each)


def test_yaml_blocks_are_yaml() -> None:
    for each in SNIPPETS:
        if each.language == "yaml" and not each.mark:
            assert list(yaml.safe_load_all(each.text)), f"{each.document}:{each.line}"


def test_doctests_of_the_examples_pass() -> None:
    result = doctest.testmod(not_before)
    assert result.attempted
    assert not result.failed


def test_whole_configurations_in_documents_load() -> None:
    loaded = 0
    for each in SNIPPETS:
        whole = each.language == "yaml" and "kind: KubeSchedulerConfiguration" in each.text
        if whole and each not in TUTORIALS:
            load_configuration(
                each.text,
                registry=Registry(in_tree()),
                default_plugins=DEFAULT_PLUGINS,
            )
            loaded += 1
    assert loaded >= 2
