"""Casts: what a terminal shows becomes an SVG; those in the documents are whole and harmless."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from rich.text import Text

from devtools.casts.__main__ import CASTS, FOLDER, MAX_BYTES, command_line
from devtools.casts.recording import Frame, Screen, record
from devtools.casts.svg import render

SVG: Final = "{http://www.w3.org/2000/svg}"
LAST_LINES: Final = {
    "demo": "kubestow demo: 203 bound, 6 waiting",
    "gpu-queue": "kubestow demo gpu-queue: 10 done, 2 held on the way, at most 8 of 8 GPUs in use",
    "zone-stockout": "kubestow demo zone-stockout: 8 bound, 3 by fallback, skew 4",
}
ROOT: Final = Path(__file__).parents[3]


def plain(screen: Screen) -> list[str]:
    return [row.plain for row in screen.rows()]


def texts(svg: str) -> list[str]:
    """Return the texts that are shown in the end, without animation."""
    root = ET.fromstring(svg)
    style = root.findtext(f"{SVG}style") or ""
    hidden = re.findall(r"\.(f\d+-\d+)\{animation-name:[^}]*opacity:0\}", style)
    return [
        element.text or ""
        for group in root.iter(f"{SVG}g")
        if group.get("class") not in hidden
        for element in group.findall(f"{SVG}text")
    ]


def test_a_line_that_is_erased_and_written_again_is_redrawn() -> None:
    screen = Screen(20, 10)
    screen.feed("a\r\nb\r\nc")
    screen.feed("\r\x1b[2K\x1b[1A\x1b[2Knew\r\nlast\r\n")
    assert plain(screen) == ["a", "new", "last", ""]


def test_a_control_sequence_may_come_in_pieces() -> None:
    screen = Screen(20, 10)
    for piece in ("one\r\ntwo\r\x1b", "[2", "K\x1b[1A\x1b[2Kthree"):
        screen.feed(piece)
    assert plain(screen) == ["three", ""]


def test_long_lines_are_wrapped_and_the_oldest_scroll_out() -> None:
    screen = Screen(4, 3)
    screen.feed("gone\r\nabcdefghij")
    assert plain(screen) == ["abcd", "efgh", "ij"]


@pytest.mark.parametrize("text", ["\x1b[3;4H", "\x1b]0;title\x07", "a\rb"])
def test_what_the_terminal_does_not_understand_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"unsupported control sequence|without being erased"):
        Screen(20, 10).feed(text)


def test_a_command_is_recorded_in_a_terminal_of_the_size() -> None:
    program = (
        "import os, sys; print(os.get_terminal_size().columns, sys.stdout.isatty());"
        "print('\\x1b[32mgreen\\x1b[0m')"
    )
    frames = record([sys.executable, "-c", program], 60, 10, 0.0)
    assert [row.plain for row in frames[-1].rows] == ["60 True", "green", ""]
    assert frames[-1].rows[1].spans


def test_text_is_drawn_once_for_as_long_as_it_is_visible() -> None:
    frames = [
        Frame(0.0, (Text("stays"), Text("goes  & <"))),
        Frame(1.0, (Text("stays"), Text("comes"))),
    ]
    svg = render("kubestow demo", frames, 40)
    assert svg.count(">stays<") == 1
    assert "goes  &amp; &lt;" in svg
    assert texts(svg) == ["$", "kubestow demo", "stays", "comes"]
    assert "@media(prefers-reduced-motion:reduce)" in svg


@pytest.mark.parametrize("name", CASTS)
def test_the_casts_of_the_documents_are_whole_and_harmless(name: str) -> None:
    path = FOLDER / f"{name}.svg"
    svg = path.read_text(encoding="utf-8")
    assert path.stat().st_size <= MAX_BYTES
    shown = texts(svg)
    assert shown[:2] == ["$", command_line(name)]
    assert LAST_LINES[name] in shown
    elements = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}
    assert elements <= {"svg", "title", "style", "rect", "g", "text"}
    assert re.findall(r"(?:https?:|url\(|href|@import|\son\w+=)[^\s\"'<]*", svg) == [
        "http://www.w3.org/2000/svg",
        *re.findall(r"http://127\.0\.0\.1:\d+", svg),
    ]


def test_there_are_no_other_casts() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CASTS)


@pytest.mark.parametrize("name", CASTS)
def test_a_cast_is_shown_in_a_document(name: str) -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"casts/{name}.svg)" in path.read_text(encoding="utf-8") for path in documents)
