"""Mutants: each is one small fault in code, never in a declaration or a text."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from devtools.mutants.mutating import PACKAGES, Mutant, draw, find

ROOT: Final = Path(__file__).parents[3]


def mutants(text: str) -> list[Mutant]:
    return find("example.py", text.encode())


def changes(text: str) -> set[str]:
    """Return the lines that replace the only line of a function."""
    before = "def function(self, items, a, b, c):\n    "
    return {
        mutant.apply((before + text).encode()).decode().removeprefix(before)
        for mutant in mutants(before + text)
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a = b < c", {"a = (b <= c)", "a = (b >= c)"}),
        ("a = b >= c", {"a = (b > c)", "a = (b < c)"}),
        ("a = b == c", {"a = (b != c)"}),
        ("a = b is not c", {"a = (b is c)"}),
        ("a = b in c", {"a = (b not in c)"}),
        ("a = b + c", {"a = (b - c)"}),
        ("a = b // c", {"a = (b * c)"}),
        ("a = b | c", {"a = (b & c)"}),
        ("a = b and c", {"a = (b or c)"}),
        ("a = b or c", {"a = (b and c)"}),
        ("a = not b", {"a = (b)"}),
        ("a = b if c else None", {"a = b if (not c) else None"}),
        ("a = [b for b in items if b]", {"a = [b for b in items if (not b)]"}),
        ("a = 7", {"a = (8)", "a = (6)"}),
        ("a = 0.5", {"a = (1.5)", "a = (-0.5)"}),
        ("a = True", {"a = (False)"}),
        ("a = min(b, c)", {"a = (max(b, c))"}),
        ("a = any(items)", {"a = (all(items))"}),
        ("return b", {"return None"}),
        ("return True", {"return None", "return (False)"}),
        ("return False", {"return (True)"}),
        ("a += b", {"a -= b", "pass"}),
        ("self.a = b", {"pass"}),
        ("del items[a]", {"pass"}),
        ("raise b", {"pass"}),
        ("items.append(a)", {"pass"}),
        ("for a in items: break", {"for a in items: continue"}),
        ("while a: continue", {"while (not a): continue", "while a: break"}),
    ],
)
def test_a_mutant_changes_one_thing(line: str, expected: set[str]) -> None:
    assert changes(line) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""Text, in which 1 < 2."""',
        "def f(a: Literal[1], b: 'int | None' = None) -> Literal[True]: ...",
        "limit: Literal[1]",
        "Number = int | float",
        "if TYPE_CHECKING:\n    LIMIT = 1",
        "@dataclass(frozen=True)\nclass Record: ...",
        "def f(a):\n    _log.info('begins', number=1, size=len(a) + 1)",
        "def f(self):\n    self._log.warning('1' + self.text)",
        "def f(a):\n    g = f'{a + 1}'",
        "def f(a):\n    assert a > 0, 'positive'",
        "def f(a):\n    match a:\n        case 1: pass",
        "def f():\n    return None",
    ],
)
def test_declarations_and_texts_are_not_mutated(text: str) -> None:
    assert mutants(text) == []


def test_a_mutant_knows_its_place() -> None:
    text = "class Queue:\n    def pop(self):\n        é, a = 1, 1\n"
    where = [(each.scope, each.line, each.nth, each.replacement) for each in mutants(text)]
    assert where == [
        ("Queue.pop", 3, 0, "(2)"), ("Queue.pop", 3, 0, "(0)"),
        ("Queue.pop", 3, 1, "(2)"), ("Queue.pop", 3, 1, "(0)"),
    ]  # fmt: skip
    assert mutants(text)[2].apply(text.encode()).decode().endswith("é, a = 1, (2)\n")


def test_a_mutant_is_found_after_a_change_elsewhere() -> None:
    text = "def one():\n    return 1\n"
    keys = [mutant.key for mutant in mutants(text)]
    assert keys == [mutant.key for mutant in mutants(f"A = None\n\n\n{text}")]
    assert not set(keys) & {mutant.key for mutant in mutants(text.replace("one", "other"))}


def test_what_runs_at_import_names_its_readers() -> None:
    text = "LIMIT = 1\nclass A:\n    size: int = 2\n    def f(self, b=3):\n        c = 4\nuse(5)\n"
    readers = {mutant.source: mutant.read_by for mutant in mutants(text)}
    assert readers == {
        "1": ("LIMIT",),
        "2": ("size",),
        "3": ("f",),
        "4": None,
        "5": (),
        "use(5)": (),
    }


@pytest.mark.slow
def test_the_same_seed_draws_the_same_mutants(tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler/queue").symlink_to(ROOT / "scheduler/queue")
    drawn = draw(tmp_path, 40, seed=1)
    assert drawn == draw(tmp_path, 40, seed=1)
    assert drawn != draw(tmp_path, 40, seed=2)
    assert len({(mutant.path, mutant.line) for mutant in drawn}) == 40
    for mutant in drawn:
        text = (ROOT / mutant.path).read_bytes()
        assert ast.dump(ast.parse(mutant.apply(text))) != ast.dump(ast.parse(text))


def test_there_is_code_to_mutate_in_each_package() -> None:
    for package in PACKAGES:
        assert any(find(str(file), file.read_bytes()) for file in (ROOT / package).rglob("*.py"))
