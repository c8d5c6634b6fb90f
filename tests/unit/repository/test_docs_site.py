"""The navigation of the docs site is complete, and its hook fits the pages to a site.

`make docs` builds the site; here nothing of MkDocs is needed.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, Final

import pytest
import yaml

from devtools.docs_site import entries, expanded, fitted, on_post_page, slug
from tests.unit.repository.tree import ROOT, tracked_files

DOCS: Final = ROOT / "docs"
CONFIGURATION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES: Final = sorted(
    path.relative_to(DOCS).as_posix()
    for path in tracked_files()
    if path.suffix == ".md" and path.is_relative_to(DOCS)
)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(entries(expanded(CONFIGURATION["nav"], PAGES)))
    missing = [
        f"docs/{page}: add it to `nav` in mkdocs.yml" for page in PAGES if page not in listed
    ]
    assert not missing, "\n".join(missing)
    assert sorted(listed) == PAGES


def test_the_build_is_strict_and_loads_nothing_from_elsewhere() -> None:
    assert CONFIGURATION["strict"] is True
    assert CONFIGURATION["theme"]["font"] is False
    assert "repo_url" not in CONFIGURATION
    checks = CONFIGURATION["validation"]
    assert {level for part in checks.values() for level in part.values()} == {"warn"}
    assert checks["links"].keys() == {
        "not_found",
        "anchors",
        "absolute_links",
        "unrecognized_links",
    }
    assert "omitted_files" in checks["nav"]


def test_a_folder_stands_for_its_pages_that_are_not_named() -> None:
    nav = ["x.md", {"Records": ["d/README.md", "d/"]}, {"Tutorials": "t/"}]
    pages = ["d/1.md", "d/2.md", "d/README.md", "t/a.md", "x.md"]
    assert expanded(nav, pages) == [
        "x.md",
        {"Records": ["d/README.md", "d/1.md", "d/2.md"]},
        {"Tutorials": ["t/a.md"]},
    ]


def test_anchors_are_those_of_the_code_host() -> None:
    assert slug("kubestow's own: `--config`, and more", "-") == "kubestows-own---config-and-more"


@pytest.mark.parametrize(
    ("uri", "source", "expected"),
    [
        ("operations.md", "", "the base, [x](y.md)"),
        ("operations.md", "https://h/b/v1", "[the base](https://h/b/v1/manifests), [x](y.md)"),
    ],
)
def test_a_link_out_of_docs_leads_to_the_sources(uri: str, source: str, expected: str) -> None:
    assert fitted("[the base](../manifests), [x](y.md)", uri, source) == expected


@pytest.mark.parametrize("link", ["[a](../no-such-file.md)", "[a](../README.md)"])
def test_a_link_to_nothing_or_within_docs_is_left_to_mkdocs(link: str) -> None:
    assert fitted(link, "decisions/0001-pure-core.md", "https://h") == link


def test_code_blocks_stay_as_they_are() -> None:
    text = "```yaml\n# [a](../manifests)\n| `a \\| b` |\n```"
    assert fitted(text, "operations.md", "https://h") == text


def test_bars_in_code_in_a_table_need_no_backslash() -> None:
    assert fitted("| `a \\| b` | c \\| d |", "x.md", "") == "| `a | b` | c \\| d |"


@pytest.mark.parametrize(
    ("html", "warned"),
    [
        ('<script async src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/css">', True),
        ('<img alt="" src=http://example.org/a.png>', True),
        ('<a href="https://example.org/">x</a><link rel=canonical href="https://h/">', False),
        ('<script src="assets/x.js"></script>', False),
    ],
)
def test_a_page_that_loads_from_another_host_is_a_warning(
    caplog: pytest.LogCaptureFixture, html: str, warned: bool
) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"))
    with caplog.at_level(logging.WARNING, "mkdocs"):
        assert on_post_page(html, page=page) == html
    assert bool(caplog.records) is warned
