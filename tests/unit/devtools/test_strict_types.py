"""Selection of what `make types` checks beside the project itself."""

from __future__ import annotations

from pathlib import Path

from devtools.strict_types import documented, scaffolds


def test_the_plugins_of_readme_and_introduction_are_checked(tmp_path: Path) -> None:
    readme, plugins = (each.read_text(encoding="utf-8") for each in documented(tmp_path))
    assert "class " in readme
    assert "class " in plugins
    assert readme not in plugins


def test_every_combination_of_points_is_written(tmp_path: Path) -> None:
    folders = scaffolds(tmp_path)
    assert len(folders) == len(set(folders)) == 18
    assert all((each / f"{each.name.replace('-', '_')}.py").is_file() for each in folders)
