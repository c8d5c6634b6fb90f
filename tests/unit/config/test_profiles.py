"""The example profiles load, and have the effects that their comments describe."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import config
from tests.unit.config.doubles import FitArgs, load

DIRECTORY = Path(config.__file__).parent / "profiles"
ROOT = Path(__file__).parents[3]


def example(name: str) -> config.Configuration:
    return load((DIRECTORY / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def app_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin that `custom-plugin.yaml` expects on the path, as `--plugin-dir` puts it there."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "scalar_filter"))


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_loads_and_explains_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert load(text).profiles
    assert text.startswith("# ")


def test_default_is_what_runs_without_a_file() -> None:
    assert example("default").effective == load(None).effective


def test_bin_packing_fills_nodes() -> None:
    profile = example("bin-packing").profiles[0]
    args = profile.args["NodeResourcesFit"]
    assert isinstance(args, FitArgs)
    assert args.scoring_strategy.type == "MostAllocated"
    others = sum(weight for name, weight in profile.weights.items() if name != "NodeResourcesFit")
    assert profile.weights["NodeResourcesFit"] > others
    assert "NodeResourcesBalancedAllocation" not in profile.points["score"]


def test_spreading_prefers_empty_nodes() -> None:
    profile = example("spread-over-nodes").profiles[0]
    assert "ImageLocality" not in profile.points["score"]
    assert profile.weights["NodeResourcesFit"] == 5
    strategy = msgspec.to_builtins(profile.args["NodeResourcesFit"])["scoringStrategy"]
    assert strategy["type"] == "LeastAllocated"


def test_the_custom_plugin_is_in_one_profile_only() -> None:
    first, second = example("custom-plugin").profiles
    assert first.points["filter"][-1] == "example.com/AppLimit"
    assert msgspec.to_builtins(first.args["example.com/AppLimit"])["limit"] == 3
    assert "example.com/AppLimit" not in second.plugins
    assert second.points["postFilter"] == ()
