"""Every case through the whole scheduler: read or reported, and an ordinary pod is bound."""

from __future__ import annotations

import pytest

from devtools.hostile.catalogue import chosen, name_of
from devtools.hostile.templates import TEMPLATES
from devtools.hostile.world import hostile_world


@pytest.mark.parametrize("plural", sorted(TEMPLATES))
async def test_every_object_is_read_or_reported_and_delays_no_other_pod(
    plural: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = chosen(plural=plural)
    async with hostile_world() as world:
        objects = {case.name: case.object(serial=n) for n, case in enumerate(cases)}
        for case in cases:
            for each in case.beside(case.small, 0):
                world.api.create(each)
        for obj in objects.values():
            world.api.create(obj)
        await world.settle()
        await world.bind_an_ordinary_pod()
        if world.watches(plural):
            known = world.known(plural)
            said = capsys.readouterr()
            log = said.out + said.err
            skipped = [name for name, obj in objects.items() if name_of(obj) not in known]
            assert world.malformed() >= len(skipped)
            unnamed = [name for name in skipped if name_of(objects[name]) not in log]
            assert not unnamed, "skipped without a report"
        assert not world.faults()
        for obj in objects.values():
            world.api.delete(obj)
        await world.settle()
        await world.bind_an_ordinary_pod()
        assert not world.known(plural) & set(map(name_of, objects.values()))
