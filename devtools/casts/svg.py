"""Rendering of frames as one animated SVG without scripts, fonts or links.

What is on the screen in successive frames is drawn once, in a group that is visible for just that
time. Without animation, as a reader who prefers reduced motion has it, the last frame is shown. The
background is the terminal's own, so that a cast is readable on a light page and on a dark one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

from devtools.casts.recording import Frame

_CELL_WIDTH: Final = 8
_CELL_HEIGHT: Final = 18
_BASELINE: Final = 13
_MARGIN: Final = 14
_LAST_FRAME_SECONDS: Final = 5.0
_FONT: Final = "13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_BACKGROUND: Final = "#1c1f26"
_FOREGROUND: Final = "#d8dee9"


class Item(NamedTuple):
    """A piece of a row in one style."""

    row: int
    column: int
    text: str
    style: Style


class _Span(NamedTuple):
    """The frames from `begin` to before `end`."""

    begin: int
    end: int


def render(command: str, frames: Sequence[Frame], columns: int) -> str:
    """Return the SVG of a recording; `command` is its title and first line."""
    prompt = Text.assemble(("$ ", "dim"), (command, "bold"))
    pictures = [set(_items([prompt, *frame.rows])) for frame in frames]
    width = columns * _CELL_WIDTH + 2 * _MARGIN
    height = (1 + max(len(frame.rows) for frame in frames)) * _CELL_HEIGHT + 2 * _MARGIN
    spans = sorted(_spans(pictures).items())
    styles: dict[str, str] = {}
    # Every background comes before every text, so that none hides a text.
    groups = [
        _group(span, [item for item in items if bool(item.text.strip()) == texts], styles, frames)
        for texts in (False, True)
        for span, items in spans
    ]
    rules = [
        f"text{{font:{_FONT};fill:{_FOREGROUND}}}",
        *(f".{name}{{{rule}}}" for rule, name in styles.items()),
        *_animations([span for span, _ in spans], frames),
    ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">',
            f"<title>{escape(command)}</title>",
            "<style>",
            *rules,
            "</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>',
            f'<g transform="translate({_MARGIN} {_MARGIN})">',
            *filter(None, groups),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _items(rows: Sequence[Text]) -> Iterator[Item]:
    """Yield the pieces of the rows; unstyled space at their ends is left out."""
    for number, row in enumerate(rows):
        offsets = sorted({0, len(row), *(edge for span in row.spans for edge in span[:2])})
        column = 0
        for part in row.divide(offsets[1:-1]):
            style = Style.combine([Style(), *(_parsed(span.style) for span in part.spans)])
            text = part.plain
            start = column
            column += len(text)
            if style.bgcolor is not None and not style.bgcolor.is_default:
                yield Item(number, start, " " * len(text), Style(bgcolor=style.bgcolor))
            if text.strip():
                start += len(text) - len(text.lstrip())
                plain = style.without_color + Style(color=style.color)
                yield Item(number, start, text.strip(), plain)


def _parsed(style: str | Style) -> Style:
    return Style.parse(style) if isinstance(style, str) else style


def _spans(pictures: Sequence[set[Item]]) -> dict[_Span, list[Item]]:
    """Return the items that are visible from one frame to another."""
    found: dict[_Span, list[Item]] = defaultdict(list)
    began: dict[Item, int] = {}
    for number, picture in enumerate([*pictures, set()]):
        for item in [item for item in began if item not in picture]:
            found[_Span(began.pop(item), number)].append(item)
        for item in picture:
            began.setdefault(item, number)
    return found


def _group(
    span: _Span, items: Sequence[Item], styles: dict[str, str], frames: Sequence[Frame]
) -> str:
    """Return the SVG of items that are visible together; empty for none."""
    moving = "" if span == (0, len(frames)) else f' class="{_name(span)}"'
    elements = [_element(item, styles) for item in sorted(items, key=lambda item: item[:3])]
    return f"<g{moving}>{''.join(elements)}</g>" if elements else ""


def _element(item: Item, styles: dict[str, str]) -> str:
    x, width = item.column * _CELL_WIDTH, len(item.text) * _CELL_WIDTH
    top = item.row * _CELL_HEIGHT
    if item.style.bgcolor is not None:
        fill = _hexadecimal(item.style.bgcolor)
        return f'<rect x="{x}" y="{top}" width="{width}" height="{_CELL_HEIGHT}" fill="{fill}"/>'
    rule = _rule(item.style)
    name = f' class="{styles.setdefault(rule, f"s{len(styles)}")}"' if rule else ""
    text = escape(item.text, quote=False)
    return f'<text x="{x}" y="{top + _BASELINE}" textLength="{width}"{name}>{text}</text>'


def _rule(style: Style) -> str:
    """Return the CSS of a style."""
    parts = []
    if style.color is not None and not style.color.is_default:
        parts.append(f"fill:{_hexadecimal(style.color)}")
    if style.bold:
        parts.append("font-weight:bold")
    if style.dim:
        parts.append("opacity:.65")
    if style.strike:
        parts.append("text-decoration:line-through")
    return ";".join(parts)


def _hexadecimal(colour: Color) -> str:
    return colour.get_truecolor(MONOKAI).hex


def _name(span: _Span) -> str:
    return f"f{span.begin}-{span.end}"


def _animations(spans: Sequence[_Span], frames: Sequence[Frame]) -> Iterator[str]:
    total = frames[-1].seconds + _LAST_FRAME_SECONDS
    moments = [100 * frame.seconds / total for frame in frames]
    moving = [span for span in spans if span != (0, len(frames))]
    if not moving:
        return
    names = ",".join(f".{_name(span)}" for span in moving)
    yield f"{names}{{animation:{total:.1f}s step-end infinite}}"
    for span in moving:
        steps = "" if span.begin == 0 else "0%{opacity:0}"
        steps += f"{moments[span.begin]:.4g}%{{opacity:1}}"
        last = span.end == len(frames)
        steps += "" if last else f"{moments[span.end]:.4g}%{{opacity:0}}"
        yield f"@keyframes {_name(span)}{{{steps}}}"
        yield f".{_name(span)}{{animation-name:{_name(span)};opacity:{int(last)}}}"
    yield f"@media(prefers-reduced-motion:reduce){{{names}{{animation:none}}}}"
