"""Expressions and what they evaluate to, beyond the recorded vectors of the real scheduler."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.devices import Device
from scheduler.cel import CompileError, DeviceSelector, EvaluationError, device_value

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "a100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.10.0-rc.2+build.7"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    },
    "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "1500m"}},
}
D = 'device.attributes["gpu.example.com"]'


def value(**changes: Any) -> dict[str, Any]:
    """Return the variable `device`."""
    return device_value("gpu.example.com", msgspec.convert({**DEVICE, **changes}, Device))


def evaluate(expression: str) -> bool:
    """Return the result of an expression for the device above."""
    return DeviceSelector(expression).matches(value())


@pytest.mark.parametrize(
    "expression",
    [
        # Literals.
        r'"\x41\u00e9\U0001F600\101\n" == "A\u00e9\U0001F600A\n"',
        r'r"\d" == "\\d"',
        '"""a"b""" == "a\\"b"',
        r'b"\xff" == b"\377" && b"a" != b"b" && bytes("é").size() == 2',
        "0x1F == 31 && 0xFFu == 255u && 1e3 == 1000.0 && .5 == 0.5",
        "-9223372036854775808 < 0 && --1 == 1 && !!true",
        "// a comment\n true // and another",
        # Operators.
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 7u % 4u == 3u",
        "1.0 / 0.0 > 1e300 && double('NaN') != double('NaN')",
        "dyn(1) == 1.0 && 1u < 1.5 && 2 > 1u && 1 in [1]",
        '"a" + "b" == "ab" && [1] + [2] == [1, 2]',
        'true ? "a" == "a" : false',
        "(1 > 2) == false && 1 > 2 == false",
        "{'a': 1}['a'] == 1 && dyn({1: 2})[1u] == 2 && {true: 1}[true] == 1 && 'a' in {'a': 1}",
        # Errors are absorbed by what decides without them.
        f"{D}.missing == 1 || true",
        f"true || {D}.missing == 1",
        f"!({D}.missing == 1 && false)",
        f"[1, 2].exists(x, x == 2 || {D}.missing == x)",
        f"![1, 2].all(x, x == 3 && {D}.missing == x)",
        f"!(!has({D}.model) && {D}.model > 1)",
        # Optionals.
        f"{D}.?missing.orValue(5) == 5",
        f'{D}[?"model"].orValue("") == "a100"',
        f"!{D}.?missing.optMap(x, x + 1).hasValue()",
        f"{D}.?index.optFlatMap(x, x > 2 ? optional.of(x) : optional.none()).value() == 3",
        "[1, 2][?5].or(optional.of(3)).value() == 3",
        "[?optional.none(), ?optional.of(2)] == [2] && {?'a': optional.of(1)} == {'a': 1}",
        "optional.ofNonZeroValue(0) == optional.none()",
        "[1].first().value() == 1 && ![].last().hasValue()",
        # Macros.
        "[1, 2, 3].exists_one(x, x == 2) && ![1, 1].exists_one(x, x == 1)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "{'a': 1, 'b': 2}.all(k, v, k != '' && v > 0) && {'a': 1}.exists(k, v, v == 1)",
        "['x', 'y'].transformList(i, v, string(i) + v) == ['0x', '1y']",
        "['x', 'y'].transformMap(i, v, i == 1, v) == {1: 'y'}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "cel.bind(x, 2, cel.bind(y, x + 1, x + y == 5))",
        "[[1, 2], [3]].exists(x, x.exists(y, y == 3 && x.size() == 1))",
        # Libraries.
        '"a-b-c".split("-", 2) == ["a", "b-c"] && "abc".split("") == ["a", "b", "c"]',
        '"abc".replace("", "-") == "-a-b-c-" && "aaa".replace("a", "b", 2) == "bba"',
        '"tacocat".lastIndexOf("ac", 3) == 1 && "abc".indexOf("", 2) == 2',
        'strings.quote("a\\n\\"") == "\\"a\\\\n\\\\\\"\\""',
        (
            '"%.2f %e %x %b %o %s".format([1.0, 1000.0, 255, 5, 8, [1, 2]])'
            ' == "1.00 1.000000e+03 ff 101 10 [1, 2]"'
        ),
        '"%s %s %s".format([null, {"b": true}, duration("90s")]) == "null {b: true} 90s"',
        "[1, 2, 2].distinct() == [1, 2] && [[1], [2, 3]].flatten() == [1, 2, 3]",
        "[1.5, 2.5].sum() == 4.0 && ([] + [1]).sum() == 1 && [3, 1].min() == 1",
        "sets.contains([1, 2], [2]) && !sets.intersects([1], [2]) && sets.equivalent([1], [1, 1])",
        '"ab12".find("[0-9]+") == "12" && "a1b2".findAll("[0-9]", 1) == ["1"]',
        'quantity("1.5Gi").sub(quantity("512Mi")) == quantity("1Gi")',
        'sign(quantity("-1")) == -1 && quantity("100m").asApproximateFloat() == 0.1',
        'semver("v1.2", true) == semver("1.2.0") && !isSemver("v1.2") && !isSemver("01.2.3")',
        'semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-alpha.beta"))',
        'semver("1.0.0-2").isLessThan(semver("1.0.0-10"))',
        f'{D}.driverVersion.isLessThan(semver("1.10.0")) && {D}.driverVersion.minor() == 10',
        'ip("::1").isLoopback() && ip("10.0.0.1").family() == 4 && !isIP("::ffff:10.0.0.1")',
        (
            'cidr("10.1.0.0/16").containsIP("10.1.2.3") && cidr("10.1.2.3/16").masked() == '
            'cidr("10.1.0.0/16") && cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")'
        ),
        'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1")',
        'url("https://a.example:8080/p?k=v").getPort() == "8080" && !isURL("a.example")',
        'url("https://[::1]:80/p?k=v&k=w").getQuery()["k"] == ["v", "w"]',
        'format.named("uuid").hasValue() && !format.named("nothing").hasValue()',
        '!format.dns1123Label().validate("a-b").hasValue()',
        'format.labelValue().validate("-").hasValue()',
        'timestamp("2026-02-03T04:05:06.5Z").getFullYear() == 2026',
        'timestamp("2026-02-03T04:05:06Z") + duration("1h") == timestamp("2026-02-03T05:05:06Z")',
        'string(duration("1.5s")) == "1.5s" && int(duration("1s")) == 1000000000',
        'string(1.0) == "1" && string(1e100) == "1e+100" && string(true) == "true"',
        "double('0x1p3') == 8.0 && double('1_0') == 10.0 && double('-Inf') < 0.0",
        'int("-7") == -7 && double("1.5") == 1.5 && bool("true") && uint(7) == 7u',
        'type(1) == int && type(1u) != int && type("") == string && type([]) == list',
        f"{D}.model.includes('a100') && [1, 2].includes(2)",
        # The device.
        f"{D}.model == 'a100' && {D}.healthy && {D}.index in [3, 4]",
        'device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")',
        'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("39Gi"))',
        'device.attributes["unknown.example"].size() == 0',
        '!("unknown.example" in device.attributes) && has(device.attributes.unknown)',
    ],
)
def test_is_true(expression: str) -> None:
    assert evaluate(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{D}.missing == 1", "no such key: missing"),
        (f"{D}.model > 1", "no such overload"),
        (f"{D}.model + 1 == 1", "no such overload"),
        (f"{D}.model.isLessThan(semver('1.0.0'))", "no such overload: isLessThan"),
        (f"{D}.index / 0 == 1", "division by zero"),
        (f"{D}.index % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("-(-9223372036854775807 - 1) > 0", "integer overflow"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[1].min() > [1].slice(1, 1).min()", "min called on empty list"),
        ("[1, 2].slice(1, 5) == []", "list is length 2"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range"),
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("cel.bind(x, [], '%d'.format(x)) == ''", "index out of range"),
        ("cel.bind(x, ['a'], '%d'.format(x)) == ''", "decimal clause given string"),
        (f"int({D}.model) == 1", "type conversion error from 'string' to 'int'"),
        ("quantity('x') == quantity('1')", "quantities must match"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("semver('1') == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        (D + ".model", "CEL result of type string could not be converted to bool"),
        (f"{D}.index ? true : false", "no such overload"),
        (f"{D}.index && true", "no such overload"),
        (f"'a'.matches({D}.model + '[')", "error parsing regexp"),
        (f"{{{D}.index: 1, {D}.index: 2}} == {{}}", "repeated key"),
    ],
)
def test_fails_at_run_time(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "unexpected the end"),
        ("device.driver ==", "unexpected the end"),
        ("1 +* 2", "unexpected '*'"),
        ("device.driver == 'a", 'unexpected "\'"'),
        ("for == 1", "reserved identifier: for"),
        ("devices.driver == ''", "undeclared reference to 'devices'"),
        ("math.greatest(1, 2) == 2", "undeclared reference to 'greatest'"),
        ("device.name == ''", "undefined field 'name'"),
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("device.driver.sign() == 1", "applied to 'string.()'"),
        ("'a'.size", "does not support field selection"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("[1, 'a'] == [1]", "expected type 'int' but found 'string'"),
        ("9223372036854775808 > 0", "invalid int literal"),
        ("18446744073709551616u > 0u", "invalid uint literal"),
        ("duration('x') == duration('1s')", "invalid duration argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("has(device)", "invalid argument to has() macro"),
        ("[1].all(x.y, true)", "must be a simple name"),
        ("1.all(x, true)", "cannot be range of a comprehension"),
        ("[1].exists(x, x)", "found no matching overload for 'exists'"),
        (r"'\q' == ''", "invalid escape sequence"),
        ("Foo{a: 1} == 1", "unexpected '{'"),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_'"),
    ],
)
def test_does_not_compile(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        DeviceSelector(expression)
    assert message in str(caught.value)


def test_an_error_of_compilation_knows_its_place() -> None:
    with pytest.raises(CompileError) as caught:
        DeviceSelector("device.driver == 'x' && nothing")
    assert caught.value.offset == len("device.driver == 'x' && ")


def test_a_device_with_an_attribute_of_an_unknown_kind_matches_no_expression() -> None:
    with pytest.raises(EvaluationError, match="attribute l: unsupported attribute value"):
        value(attributes={"l": {}})
    with pytest.raises(EvaluationError, match="attribute v: parse semantic version: "):
        value(attributes={"v": {"version": "1"}})


def test_lists_are_attributes() -> None:
    device = msgspec.convert({"attributes": {"l": {"strings": ["x", "y"]}}}, Device)
    variable = device_value("gpu.example.com", device)
    assert DeviceSelector(f'"y" in {D}.l && {D}.l.includes("x")').matches(variable)


@pytest.mark.parametrize(
    "call", ["quantity({})", "semver({}, true)", "ip({})", "cidr({})", "quantity({}).add(1)"]
)
@pytest.mark.parametrize("text", ["'1Gi'", "'v1.2'", "'::1'", "'10.0.0.0/8'", "''"])
def test_a_constant_text_is_parsed_once_at_the_same_cost(call: str, text: str) -> None:
    def outcome(argument: str) -> tuple[bool, int] | str:
        try:
            return DeviceSelector(f"[{call.format(argument)}].size() == 1").evaluate(value())
        except EvaluationError as error:
            return str(error)

    constant, computed = outcome(text), outcome(f"cel.bind(x, {text}, x)")
    if isinstance(constant, str):
        assert computed == constant
    else:
        # The variable costs one unit.
        assert computed == (constant[0], constant[1] + 1)
