"""The protocol of a demo's story, for the one runner and the one audience."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from simulator.cluster import EmbeddedCluster
from simulator.demos.board import Board, News


class Story(ABC):
    """A cluster, what happens to it, and how it must end.

    The story acts on the embedded API server as users, controllers and clouds would, never on the
    scheduler, and judges by what that server stores alone.
    """

    board: Board
    cluster: EmbeddedCluster
    port: int
    """Port of the API server; 0 takes a free one."""
    seed: int = 1
    feature_gates: Mapping[str, bool] = {}
    """Feature gates of the scheduler."""
    config_file: str = ""
    """Configuration of the scheduler; empty: the defaults. How the story must end is then open."""
    plugin_dirs: tuple[str, ...] = ()
    """Folders with plugins that `config_file` names."""
    picture: RenderableType | None = None
    """Drawn again and again on a terminal, instead of lines."""
    picture_while_serving: bool = False

    @abstractmethod
    def prepare(self) -> None:
        """Create the objects that exist before the scheduler starts, and observe the store."""

    @abstractmethod
    async def play(self) -> None:
        """Play the story to its end, or until the scheduler has had enough time.

        Raises:
            DemoError: the story is stuck at a point where waiting is of no use.
        """

    @abstractmethod
    def problems(self) -> list[str]:
        """Return a sentence for everything that did not end as promised."""

    def violations(self) -> list[str]:
        """Return what no cluster may show, whatever users did while it was served."""
        return []

    def progress(self) -> str:
        """Return how far the story is, for a line every few seconds; empty for none."""
        return ""

    def line(self, news: News) -> Text:
        """Return a line of the board as it is written."""
        return Text(str(news))

    def summary(self) -> str:
        """Return what is written when the story ended well; empty for nothing."""
        return ""

    @abstractmethod
    def guide(self, kubeconfig: Path) -> str:
        """Return what to try with kubectl while the cluster is served."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the last line."""
