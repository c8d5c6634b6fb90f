"""Every configuration that the real kube-scheduler accepted in the shared vectors loads here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.unit.config.doubles import load

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"


def test_every_configuration_of_the_vectors_loads_with_upstreams_names() -> None:
    files = sorted(VECTORS.glob("*.jsonl.gz"))
    assert files, f"the shared vectors are missing from {VECTORS}"
    seen = 0
    for path in files:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            vector = json.loads(line)
            given = vector["input"].get("config")
            if given is None:
                continue
            configuration = load(json.dumps(given), upstream=True, tolerate_missing=True)
            expected = [profile.get("schedulerName") for profile in given["profiles"]]
            assert [one.scheduler_name for one in configuration.profiles] == expected, vector["id"]
            seen += 1
    assert seen > 100
