"""HTML of reports: one file that needs nothing else, and no scripts.

Every text is escaped here; `content` and `parts` are HTML already, made with `shown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from scheduler.sanitizing.escaping import escaped

MAX_ROWS: Final = 500
"""Rows of one table."""

STYLE: Final = """\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}
caption{text-align:left;font-weight:bold}
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8888;vertical-align:top}
td{min-width:8rem;overflow-wrap:anywhere}
td.name{white-space:nowrap}
td.number,th.number{min-width:0;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide{overflow-x:auto}
pre{overflow:auto;border:1px solid #8888;padding:.8rem}
figure{margin:1rem 0;background:#fff;color:#000}
figure svg{width:100%;height:auto}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:0 1rem}
summary{cursor:pointer;margin:.5rem 0}
.verdict{font-size:1.25rem;font-weight:bold;border-left:.4rem solid;padding-left:.8rem;
 max-width:60rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(15rem,100%),1fr));gap:.8rem;
 list-style:none;padding:0}
.card{border:1px solid #8888;border-top:.3rem solid #888;border-radius:.3rem;
 padding:.5rem .9rem;overflow-wrap:anywhere}
.card b{display:block;font-size:1.9rem;line-height:1.3}
.card.better{border-top-color:#0a7d3c}
.card.worse{border-top-color:#c2410c}
.bad{font-weight:bold}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def shown(text: str) -> str:
    r"""Return the HTML of a text; what hides text or changes its direction is written out.

    >>> shown("<b>\u202e")
    '&lt;b&gt;\\u202e'
    """
    return escape(escaped(text))


def page(title: str, parts: Iterable[str]) -> str:
    """Return the page; empty parts are left out."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(each for each in parts if each)
        + "\n</body></html>\n"
    )


def folded(title: str, content: str) -> str:
    """Return content that a click shows."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int] = (),
) -> str:
    """Return a table; the columns of `numbers` are aligned at the right."""
    right = frozenset(numbers)

    def kind(index: int) -> str:
        return " class=number" if index in right else "" if index else " class=name"

    def line(cells: Sequence[str], tag: str) -> str:
        texts = map(shown, cells)
        made = (f"<{tag}{kind(index)}>{each}</{tag}>" for index, each in enumerate(texts))
        return f"<tr>{''.join(made)}</tr>"

    more = len(rows) - MAX_ROWS
    rest = f"<p>and {more} more; <code>-o json</code> has all</p>" if more > 0 else ""
    body = "\n".join(line(each, "td") for each in rows[:MAX_ROWS])
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>\n'
        f"<thead>{line(headings, 'th')}</thead>\n<tbody>{body}</tbody></table></div>{rest}"
    )
