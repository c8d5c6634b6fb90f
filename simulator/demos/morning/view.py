"""The picture of the morning: a board drawn with rich, whatever the size of the terminal.

Two layouts. The large one (96 x 32 and more) has a line per node; the small one has a column of one
character per node. Neither grows taller than the terminal, because a live view must not scroll.
Drawing only reads the board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from simulator.demos.board import News
from simulator.demos.morning.cluster import PACE_SECONDS, ClusterBoard, NodeLine, Share
from simulator.demos.morning.waits import WaitGroup

_LARGE_WIDTH: Final = 96
_ROOM_BELOW_NODES: Final = 9
"""Lines that the panels below the nodes need at least, in the large layout."""
_HEAD_LINES: Final = 3
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_TRACK_STYLE: Final = "on grey19"
_BUSY, _FULL = 0.7, 0.9
_PACE_BUCKETS: Final = 24
_RESOURCES: Final[Sequence[tuple[str, Callable[[NodeLine], Share]]]] = (
    ("cpu", lambda node: node.cpu),
    ("memory", lambda node: node.memory),
    ("gpu", lambda node: node.devices),
)
_MARKS: Final[dict[str, tuple[str, str]]] = {
    "story": ("▶", "bold cyan"),
    "placed": ("+", "green"),
    "waits": ("…", "yellow"),
    "reload": ("↻", "bold cyan"),
    "fault": ("!", "bold red"),
}


class MorningView:
    """A renderable that shows the board as it is when drawn."""

    def __init__(self, board: ClusterBoard, total: int, server: str) -> None:
        self._board = board
        self._total = total
        self._server = server

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        # Leave room for the last line and the prompt, so that the head stays in sight afterwards.
        height = console.size.height - 3
        tallest = max((len(nodes) for nodes in self._board.zones().values()), default=0)
        large_lines = _HEAD_LINES + tallest + 3
        if width >= _LARGE_WIDTH and height >= large_lines + _ROOM_BELOW_NODES:
            yield self._large(width, height - large_lines)
        else:
            yield self._small(width, height)

    # -- head --------------------------------------------------------------------------------------

    def _head(self, width: int) -> RenderableType:
        board = self._board
        zones = len(board.zones())
        title = Text(" kubestow demo", "bold")
        title.append(f"   {len(board.nodes)} nodes in {zones} zones", "default not bold")
        clock = Text(f"{self._server}   {board.elapsed():5.1f} s ", "dim")
        first = _sides(title, clock, width)
        counts = Text(f" {board.bound}/{self._total} bound", "bold green")
        waiting = len(board.waiting())
        counts.append(f"  {waiting} waiting ", "yellow" if waiting else "dim")
        share = board.bound / self._total if self._total else 0.0
        length = width - counts.cell_len - 2
        second = Text.assemble(" ", _bar(share, length, "green"), counts)
        return Group(first, second, self._pace(width))

    def _pace(self, width: int) -> Text:
        board = self._board
        # Grows to the right until it is full.
        pace = board.pace(min(_PACE_BUCKETS, int(board.elapsed() / PACE_SECONDS) + 1))
        peak = max(*pace, 1)
        line = Text(f" {board.rate():3.0f} pods/s ")
        line.append("".join(_level(count / peak) if count else " " for count in pace), "cyan")
        median, slow = board.latency(0.5), board.latency(0.99)
        latency = Text("")
        if median is not None and slow is not None:
            text = f"created to bound: median {_milli(median)}, 99 % within {_milli(slow)} "
            latency = Text(text, "dim")
        return _sides(line, latency, width)

    # -- large -------------------------------------------------------------------------------------

    def _large(self, width: int, below: int) -> RenderableType:
        grid = Table.grid(expand=True)
        zones = self._board.zones()
        each = width // max(len(zones), 1)
        for _ in zones:
            grid.add_column(ratio=1)
        grid.add_row(*(_zone_panel(zone, nodes, each) for zone, nodes in zones.items()))
        left = width // 2
        bottom = Table.grid(expand=True)
        bottom.add_column(width=left)
        bottom.add_column(width=width - left)
        inside = below - 2
        waits = _lines(self._waits(inside, left - 4), inside)
        news = _lines(self._news(inside, width - left - 4), inside)
        bottom.add_row(_panel("waiting, and why", waits), _panel("what happens", news))
        return Group(self._head(width), grid, bottom)

    # -- small -------------------------------------------------------------------------------------

    def _small(self, width: int, height: int) -> RenderableType:
        zones = _zone_table(self._board.zones(), width)
        used = _HEAD_LINES + zones.row_count + 4
        rest = max(height - used, 2)
        groups = len(self._board.waits())
        upper = min(max(groups, 3), max(rest * 3 // 5, 1))
        waits = _lines(self._short_waits(upper, width - 2), upper)
        news = _lines(self._news(rest - upper, width - 2), rest - upper)
        parts: list[RenderableType] = [self._head(width), zones]
        parts += [_rule("waiting, and why"), waits, _rule("what happens"), news]
        return Group(*parts)

    # -- parts -------------------------------------------------------------------------------------

    def _waits(self, lines: int, width: int) -> list[Text]:
        groups = self._board.waits()
        if not groups:
            return [Text("nothing waits", "dim")]
        detailed = [_wait_lines(group) for group in groups]
        if sum(map(len, detailed)) > lines:
            return self._short_waits(lines, width)
        return [_fit(line, width) for group in detailed for line in group]

    def _short_waits(self, lines: int, width: int) -> list[Text]:
        groups = self._board.waits()
        if not groups:
            return [Text(" nothing waits", "dim")]
        shown = groups if len(groups) <= lines else groups[: lines - 1]
        short = [_fit(_wait_line(group), width) for group in shown]
        if len(shown) < len(groups):
            short.append(Text(f"  … and {len(groups) - len(shown)} more reasons", "dim"))
        return short

    def _news(self, lines: int, width: int) -> list[Text]:
        newest = [*self._board.news][-lines:]
        return [_fit(_news_line(news), width) for news in newest]


def _sides(left: Text, right: Text, width: int) -> Text:
    """Left and right end of one line; the right one is left out where both do not fit."""
    gap = width - left.cell_len - right.cell_len
    return _fit(left, width) if gap < 1 else Text.assemble(left, " " * gap, right)


def _fit(line: Text, width: int) -> Text:
    line.truncate(max(width, 1), overflow="ellipsis")
    line.no_wrap = True
    return line


def _lines(lines: Sequence[Text], count: int) -> Group:
    """Exactly `count` lines, so that the view keeps its height."""
    return Group(*lines[:count], *(Text("") for _ in range(count - len(lines))))


def _panel(title: str, content: RenderableType, padding: int = 1) -> Panel:
    return Panel(
        content,
        title=title,
        title_align="left",
        border_style="dim",
        box=box.ROUNDED,
        padding=(0, padding),
    )


def _rule(title: str) -> Rule:
    return Rule(Text(title, "dim"), align="left", style="dim")


def _milli(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _colour(fraction: float) -> str:
    if fraction > _FULL:
        return "red"
    return "yellow" if fraction > _BUSY else "green"


def _level(fraction: float) -> str:
    return _LEVELS[min(int(fraction * len(_LEVELS)), len(_LEVELS) - 1)]


def _bar(fraction: float, length: int, style: str) -> Text:
    eighths = round(min(fraction, 1.0) * length * 8)
    if fraction > 0:
        eighths = max(eighths, 1)
    filled = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
    return Text(filled[:length].ljust(length), f"{style} {_TRACK_STYLE}")


def _zone_panel(zone: str, nodes: list[NodeLine], width: int) -> Panel:
    table = Table.grid(padding=(0, 0, 0, 1))
    names = [_short_name(node, zone) for node in nodes]
    longest = max((len(name) for name in names), default=0)
    # Borders take 2, padding on the left and gaps 5, devices 3, pods 4.
    length = max((width - 2 - 5 - longest - 3 - 4) // 2, 3)
    head = [Text(title, "dim") for title in ("", "cpu", "mem", "gpu", "pods")]
    table.add_row(*head)
    for node, name in zip(nodes, names, strict=True):
        table.add_row(
            Text(name, "dim strike" if node.cordoned else "default"),
            _bar(node.cpu.fraction, length, _colour(node.cpu.fraction)),
            _bar(node.memory.fraction, length, _colour(node.memory.fraction)),
            _devices(node),
            Text(f"{node.usage.pods:4d}", "default" if node.usage.pods else "dim"),
        )
    return _panel(zone, table, padding=0)


def _short_name(node: NodeLine, zone: str) -> str:
    """Return the node's name without the zone that the heading already names."""
    return node.name.replace(f"-{zone.rpartition('-')[2]}", "", 1)


def _devices(node: NodeLine) -> Text:
    share = node.devices
    if not share.allocatable:
        return Text("  ·", "dim")
    return Text(f"{share.used}/{share.allocatable}", _colour(share.fraction))


def _zone_table(zones: dict[str, list[NodeLine]], width: int) -> Table:
    """Draw a line per zone, with a column per resource and a character per node."""
    pools = Counter(node.pool for node in next(iter(zones.values()), []))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, width=width)
    table.add_column(" zone", style="bold", header_style="dim", no_wrap=True)
    for name, _ in _RESOURCES:
        table.add_column(name, header_style="dim", no_wrap=True)
    table.add_column("pods", justify="right", header_style="dim", no_wrap=True)
    for zone, nodes in zones.items():
        cells = [_column(nodes, share) for _, share in _RESOURCES]
        table.add_row(f" {zone}", *cells, str(sum(node.usage.pods for node in nodes)))
    names = ", ".join(f"{count} {pool or 'nodes'}" for pool, count in pools.items())
    table.caption = Text(f" from left to right: {names}", "dim", no_wrap=True)
    table.caption_justify = "left"
    return table


def _column(nodes: list[NodeLine], share: Callable[[NodeLine], Share]) -> Text:
    """Pools without the resource are left out."""
    cell = Text()
    for _, of_pool in groupby(nodes, key=lambda node: node.pool):
        taken = [(node.cordoned, share(node)) for node in of_pool]
        if not any(one.allocatable for _, one in taken):
            continue
        cell.append(" " if cell else "")
        for cordoned, one in taken:
            style = f"{'dim ' if cordoned else ''}{_colour(one.fraction)} {_TRACK_STYLE}"
            cell.append(_level(one.fraction), style)
    return cell


def _wait_lines(group: WaitGroup) -> list[Text]:
    if not group.detail:
        return [_wait_line(group)]
    return [_wait_line(group), Text(f"     {group.detail}", "dim")]


def _wait_line(group: WaitGroup) -> Text:
    count = (f"{group.number:3d} ", "bold yellow")
    return Text.assemble(count, group.reason, (f"  {group.example.rpartition('/')[2]}", "dim"))


def _news_line(news: News) -> Text:
    mark, style = _MARKS[news.kind]
    words = style if news.kind in ("story", "reload", "fault") else "default"
    return Text.assemble((f"{news.at:5.1f} ", "dim"), (f"{mark} ", style), (news.text, words))
