"""Expressions with other names."""

from __future__ import annotations

import pytest

from scheduler.cel import CompileError, rename
from scheduler.cel.parser import MAX_LENGTH


def prefixed(name: str) -> str:
    return f"x_{name}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "a.com"', 'device.driver == "x_a.com"'),
        ("(device).driver == 'a'", '(device).driver == "x_a"'),
        # An attribute may have the name of a field of `device`.
        ('device.attributes["a"].driver == "b"', 'device.attributes["x_a"].x_driver == "x_b"'),
        ('device.capacity["a"].?mem.hasValue()', 'device.capacity["x_a"].?x_mem.hasValue()'),
        # Variables of macros are the author's words, functions and types are not.
        ("[1].all(secret, secret > 0)", "[1].all(x_secret, x_secret > 0)"),
        ("cel.bind(d, device, d.driver == '')", 'cel.bind(x_d, device, x_d.driver == "x_")'),
        ("has(device.driver) && type(1) == int", "has(device.driver) && type(1) == int"),
        ("optional.of(1).optMap(n, n)", "optional.of(1).optMap(x_n, x_n)"),
        ("secret(1) || device.secret(2)", "x_secret(1) || device.x_secret(2)"),
        ("true ? device : [null, 1u]", "true ? device : [null, 1u]"),
        # Texts of every kind; white space is kept as one space, comments are dropped.
        (r'r"\d" == "\x41" && b"z" == """q"r"""', r'"x_\\d" == "x_A" && b"x_z" == "x_q\"r"'),
        ("1  ==\n1 // secret", "1 == 1"),
        ("'é' != ''", '"x_\\u00e9" != "x_"'),
    ],
)
def test_names_and_texts_are_replaced(expression: str, expected: str) -> None:
    assert rename(expression, prefixed) == expected


@pytest.mark.parametrize("expression", ["device.driver == #", "'open", "1" * (MAX_LENGTH + 1)])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        rename(expression, prefixed)
