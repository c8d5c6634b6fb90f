"""Sweep files and what they name, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from scheduler import offline

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def prepare(tmp_path: Path) -> Path:
    """Fill a folder with what sweep files name."""
    items = [*(offline.node(f"n{each}", cpu=4) for each in range(3)), offline.pod("web", cpu=3)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": items}))
    (tmp_path / "pack.yaml").write_text(CONFIG)
    (tmp_path / "trace.csv").write_text("arrival,duration,template,count\n5,60,a,4\n10,60,a,\n")
    (tmp_path / "a.yaml").write_text(json.dumps(offline.pod("a", cpu=3)))
    return tmp_path


def sweep_file(folder: Path, **fields: Any) -> Path:
    """Write a sweep file of two policies."""
    base = {"dumps": ["cluster.json"], "policies": {"default": None, "pack": "pack.yaml"}}
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(base | fields, sort_keys=False))
    return path
