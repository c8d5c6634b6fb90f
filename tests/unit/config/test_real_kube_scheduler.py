"""Configurations against the real kube-scheduler: recorded and present acceptance.

The vectors' configurations need nothing but their files. The tests marked `envtest` run the real
kube-scheduler with `--write-config-to`, which reads, completes and builds the profiles, then exits.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import config
import plugins
from config import API_VERSION, KIND, Configuration, load_configuration, to_yaml, upstream_form
from devtools.control_plane.binaries import Binaries, BinariesMissingError
from plugins.volume_binding.arguments import DEFAULT_SHAPE
from scheduler.framework.registry import Registry
from scheduler.framework.status import ConfigurationError
from tests.unit.config.doubles import load

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
PROFILES = Path(config.__file__).parent / "profiles"


def load_real(text: str | None) -> Configuration:
    """Load with the plugins that exist."""
    return load_configuration(
        text,
        registry=Registry(plugins.in_tree()),
        default_plugins=plugins.DEFAULT_PLUGINS,
        tolerate_missing=True,
        upstream=True,
    )


def vector_configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every configuration in the shared vectors with the vector's id."""
    files = sorted(VECTORS.glob("*.jsonl.gz"))
    assert files, f"the shared vectors are missing from {VECTORS}"
    for path in files:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            vector = json.loads(line)
            if "config" in vector["input"]:
                yield vector["id"], vector["input"]["config"]


@pytest.mark.slow
def test_every_configuration_of_the_vectors_loads_with_upstreams_names() -> None:
    seen = 0
    for name, given in vector_configurations():
        expected = [profile.get("schedulerName") for profile in given["profiles"]]
        stand_ins = load(json.dumps(given), upstream=True, tolerate_missing=True)
        assert [one.scheduler_name for one in stand_ins.profiles] == expected, name
        real = load_real(json.dumps(given))
        assert load_real(to_yaml(config.to_data(real))).profiles == real.profiles, name
        seen += 1
    assert seen > 100


# -- the real kube-scheduler ----------------------------------------------------------------------

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
"""

Completed = Callable[[dict[str, Any]], dict[str, Any] | None]


@pytest.fixture
def kube_scheduler(tmp_path: Path) -> Completed:
    """Kube-scheduler's completed form of a configuration; None when it refuses."""
    try:
        binary = Binaries.find().directory / "kube-scheduler"
    except BinariesMissingError as error:
        pytest.skip(str(error))
    if not binary.exists():
        pytest.skip(f"no kube-scheduler among the binaries: {binary}")
    kubeconfig, given, written = (tmp_path / name for name in ("kubeconfig", "given", "written"))
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")

    def complete(data: dict[str, Any]) -> dict[str, Any] | None:
        connection = {"clientConnection": {"kubeconfig": str(kubeconfig)}}
        given.write_text(to_yaml(data | connection), encoding="utf-8")
        options = [f"--config={given}", f"--write-config-to={written}", "--secure-port=0"]
        result = subprocess.run([binary, *options], capture_output=True, timeout=600, check=False)
        if result.returncode:
            return None
        completed = yaml.safe_load(written.read_text(encoding="utf-8"))
        assert isinstance(completed, dict)
        return completed

    return complete


def plugin_lists(data: dict[str, Any]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """The first profile's non-empty plugin lists."""
    lists = {
        (point, side): [(entry["name"], entry.get("weight", 0)) for entry in entries]
        for point, sets in data["profiles"][0]["plugins"].items()
        for side, entries in sets.items()
    }
    return {where: entries for where, entries in lists.items() if entries}


@pytest.mark.envtest
def test_kube_scheduler_accepts_our_form_for_it(kube_scheduler: Completed) -> None:
    configurations = list(vector_configurations())
    sample = random.Random(1).sample(configurations, 20)
    texts = [(name, json.dumps(given)) for name, given in sample]
    texts.extend(
        (name, (PROFILES / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("default", "bin-packing", "spread-over-nodes")
    )
    for name, text in texts:
        assert kube_scheduler(upstream_form(load_real(text))) is not None, name


@pytest.mark.envtest
def test_our_defaults_are_kube_schedulers(kube_scheduler: Completed) -> None:
    theirs = kube_scheduler({"apiVersion": API_VERSION, "kind": KIND})
    ours = upstream_form(load_real(None))
    assert theirs is not None
    assert plugin_lists(ours) == plugin_lists(theirs)
    for key in theirs.keys() - {"profiles", "clientConnection"}:
        assert ours[key] == theirs[key], key
    their_args = {entry["name"]: entry["args"] for entry in theirs["profiles"][0]["pluginConfig"]}
    # Its default depends on a feature gate, so ours is not written down.
    shape = their_args["VolumeBinding"].pop("shape")
    assert shape == list(msgspec.to_builtins(DEFAULT_SHAPE))
    for entry in ours["profiles"][0]["pluginConfig"]:
        filled = {key: value for key, value in entry["args"].items() if value != []}
        assert filled == their_args[entry["name"]]


@pytest.mark.envtest
@pytest.mark.parametrize("seed", range(30))
def test_plugin_lists_are_merged_or_refused_as_by_kube_scheduler(
    seed: int, kube_scheduler: Completed
) -> None:
    random_source = random.Random(seed)
    names = [one.name for one in plugins.in_tree() if one.name != "ResourceQuota"]
    points = ("preFilter", "filter", "score", "multiPoint")

    def entries(most: int, choices: list[str], *, weights: bool) -> list[dict[str, Any]]:
        chosen = [random_source.choice(choices) for _ in range(random_source.randint(0, most))]
        return [
            {"name": name} | ({"weight": random_source.randint(0, 3)} if weights else {})
            for name in chosen
        ]

    sets = {
        point: {
            "enabled": entries(1 if point != "multiPoint" else 3, names, weights=True),
            "disabled": entries(1, [*names, "*"], weights=False),
        }
        for point in random_source.sample(points, random_source.randint(1, 2))
    }
    data = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profiles": [{"schedulerName": "s", "plugins": sets}],
    }
    theirs = kube_scheduler(data)
    try:
        ours = upstream_form(load_real(to_yaml(data)))
    except ConfigurationError:
        assert theirs is None
        return
    assert theirs is not None
    assert plugin_lists(ours) == plugin_lists(theirs)
