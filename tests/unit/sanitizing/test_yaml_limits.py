"""Texts that are expensive to read are refused, whatever else is in them."""

from __future__ import annotations

import pytest
import yaml

from scheduler.sanitizing.yaml_limits import MAX_BASE_60, YamlLimitError, check_limits

LONG = "1" + ":01" * MAX_BASE_60


@pytest.mark.parametrize("text", [LONG, f"a: [x, {LONG}]", f"-{LONG}.5", f"{LONG}: x"])
def test_a_long_number_in_base_60_is_refused(text: str) -> None:
    with pytest.raises(YamlLimitError, match="a number of more than 100 characters in base 60"):
        check_limits(text)


@pytest.mark.parametrize("text", [f"'{LONG}'", "1:30:00", f"a:{LONG}", "1" * 200])
def test_other_texts_are_read(text: str) -> None:
    check_limits(text)
    assert yaml.safe_load(text) is not None
