"""`kubestow demo gang`: the whole story in a process of its own."""

from __future__ import annotations

import re

import pytest

from devtools.forked_commands import ForkedCommands


@pytest.mark.slow
def test_gangs_start_whole_in_one_rack_and_by_preemption(virtual_demo: ForkedCommands) -> None:
    done = virtual_demo.run("gang")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == "kubestow demo: 36 bound, 0 waiting"
    bound = [each for line in lines if (each := re.search(r" bound +(\w+)-\d+ to ", line))]
    order = [each[1] for each in bound]
    first = order[0]
    assert first in {"red", "blue"}
    assert set(order[:10]) == {first}, "one gang is whole before the other begins"
    assert any("needs 10 pods, 6 fit" in line for line in lines)
    evicted = [line for line in lines if re.search(r" evicted +batch-\d", line)]
    assert len(evicted) == 6
