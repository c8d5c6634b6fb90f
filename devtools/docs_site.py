"""Hook of mkdocs.yml: fits the pages of docs/ to a site, and keeps the site free of foreign hosts.

The pages are written for the code host, where a link may lead to any file of the repository. In the
site such a link leads to the address in the variable SOURCE, or becomes plain text without it.
Warnings are errors, because the build is strict. MkDocs is not imported: it is installed in an
environment of its own.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOG: Final = logging.getLogger("mkdocs.hooks.docs_site")
"""MkDocs counts the warnings of all loggers below its own."""

FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
ROW: Final = re.compile(r"^\|.*$", re.MULTILINE)
CODE: Final = re.compile(r"`[^`]+`")
LOADED: Final = re.compile(
    r"<(?:script|img|iframe|audio|video|source)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|prefetch|preconnect|modulepreload|icon))"
    r"[^>]*\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
)
"""Whatever a browser fetches without a click, from another host."""


def on_config(config: Any) -> Any:
    """Take the addresses of site and sources from the environment, and make anchors as GitHub."""
    config.site_url = os.environ.get("SITE_URL", "")
    config.extra["source"] = os.environ.get("SOURCE", "").rstrip("/")
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Replace folders in the navigation by their pages."""
    pages = sorted(file.src_uri for file in files.documentation_pages())
    config.nav = expanded(config.nav, pages)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Fit the text of a page, and set its rank in the search; the first one is the landing page."""
    if page.is_homepage:
        page.meta |= {"template": "home.html", "hide": ["navigation", "toc", "footer"]}
    sections = [each.title for each in page.ancestors]
    page.meta["search"] = {"boost": boost(page.file.src_uri, sections, config.extra["boost"])}
    page.meta["tags"] = config.extra["words"].get(page.file.src_uri, [])
    return fitted(markdown, page.file.src_uri, config.extra["source"])


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Warn of whatever a page would fetch from another host."""
    for found in LOADED.finditer(output):
        LOG.warning(
            "'%s' loads %s: keep it in docs/ instead", page.file.src_uri, found[1] or found[2]
        )
    return output


def boost(uri: str, sections: Iterable[str], boosts: Mapping[str, float]) -> float:
    """Return how much a page counts in the search.

    >>> boost("metrics.md", ["Reference"], {"Reference": 0.5}), boost("a.md", [], {})
    (0.5, 1.0)
    """
    return next((boosts[each] for each in (uri, *sections) if each in boosts), 1.0)


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading.

    >>> slug("Names of kube-scheduler, and of its KEPs", "-")
    'names-of-kube-scheduler-and-of-its-keps'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def expanded(nav: Any, pages: Iterable[str]) -> Any:
    """Replace each `folder/` in a navigation by the pages in it that are not named themselves.

    >>> expanded([{"Decisions": ["d/README.md", "d/"]}], ["d/1.md", "d/README.md", "x.md"])
    [{'Decisions': ['d/README.md', 'd/1.md']}]
    """
    named = set(entries(nav))

    def expand(item: Any) -> list[Any]:
        match item:
            case str() if item.endswith("/"):
                return [page for page in pages if page.startswith(item) and page not in named]
            case dict():
                return [{title: within(below) for title, below in item.items()}]
            case _:
                return [item]

    def within(below: Any) -> Any:
        if isinstance(below, str) and not below.endswith("/"):
            return below
        items = below if isinstance(below, list) else [below]
        return [page for item in items for page in expand(item)]

    return within(nav)


def entries(nav: Any) -> Iterable[str]:
    """Yield every page and folder that a navigation names.

    >>> list(entries([{"Operate": ["operate.md", {"Monitoring": "monitoring.md"}]}, "d/"]))
    ['operate.md', 'monitoring.md', 'd/']
    """
    if isinstance(nav, str):
        yield nav
        return
    for item in nav.values() if isinstance(nav, dict) else nav:
        yield from entries(item)


def fitted(markdown: str, uri: str, source: str) -> str:
    """Return the text of the page `uri` for the site, whose sources are below `source`.

    >>> fitted("[the base](../manifests) and [more](plugins.md)", "operations.md", "")
    'the base and [more](plugins.md)'
    """

    def link(found: re.Match[str]) -> str:
        text, target = found.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), target))
        if path.startswith("docs/") or not (ROOT / path.partition("#")[0]).exists():
            return found[0]  # MkDocs judges it
        return f"[{text}]({source}/{path})" if source else text

    parts = FENCE.split(markdown)
    # Every second part is a code block.
    parts[::2] = [ROW.sub(_row, LINK.sub(link, part)) for part in parts[::2]]
    return "".join(parts)


def _row(row: re.Match[str]) -> str:
    """Unescape the bars within code in a table: GitHub demands a backslash, the site shows it."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])
