"""The page `docs/plugin-api.md`: what a plugin may import, from the Protocols and their docstrings.

The sources are read, not imported: comments above fields (`#:`) belong to the page as well.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scheduler import framework
from testing.references.markdown import fence, prose

_INTRODUCTION: Final = """\
# Plugin API

Generated from the Protocols and docstrings in `scheduler/framework` by `make references`; do not
edit. Everything here is imported from `scheduler.framework`, unless a section names another module.
Begin with [Writing a plugin](plugins.md); the [plugin reference](plugin-reference.md) has the order
of the extension points and the rules.
"""


class Source(NamedTuple):
    """A module whose public names make a section."""

    title: str
    module: str
    #: Whether all its public names are shown, or only those of `scheduler.framework`.
    whole: bool = False


SOURCES: Final = (
    Source("Plugins", "scheduler.framework.plugin", whole=True),
    Source("Statuses", "scheduler.framework.status"),
    Source("State of an attempt", "scheduler.framework.state"),
    Source("Nodes", "scheduler.framework.nodes"),
    Source("Results of a search", "scheduler.framework.node_status"),
    Source("Pods in the queue", "scheduler.framework.queued"),
    Source("Events and hints", "scheduler.framework.events"),
    Source("Extension points", "scheduler.framework.extension_points"),
    Source("The Handle", "scheduler.framework.handle"),
    Source("Registry", "scheduler.framework.registry"),
    Source("Permissions", "scheduler.framework.permissions"),
    Source("Tests of plugins", "scheduler.framework.testing", whole=True),
)

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_WIDTH: Final = 96
_SECTION: Final = re.compile(r"^(Args|Raises|Returns|Yields):\n", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\w+): ", re.MULTILINE)
_SHOWN_SPECIAL: Final = {"__getitem__", "__contains__", "__iter__", "__len__", "__call__"}


def page() -> str:
    """Return the text of the page."""
    sections = [part for source in SOURCES for part in _module(source)]
    return "\n".join([_INTRODUCTION, *sections])


def _module(source: Source) -> Iterator[str]:
    text = inspect.getsource(importlib.import_module(source.module))
    tree = ast.parse(text)
    yield f"## {source.title}\n"
    if source.whole:
        yield f"Module `{source.module}`.\n"
    yield from _docstring(ast.get_docstring(tree) or "")
    exported = set(framework.__all__)
    for name, statement, comment in _statements(tree.body, text.splitlines()):
        if name.startswith("_") or not (name in exported or source.whole):
            continue
        if isinstance(statement, ast.ClassDef):
            yield from _class(statement, text.splitlines())
        elif isinstance(statement, Definition):
            yield f"### {name}\n"
            yield _code(_signature(statement))
            yield from _docstring(ast.get_docstring(statement) or "")
        elif comment and name in exported:
            yield f"### {name}\n"
            yield _code(ast.unparse(statement))
            yield prose(comment) + "\n"


def _statements(
    body: Sequence[ast.stmt], lines: Sequence[str]
) -> Iterator[tuple[str, ast.stmt, str]]:
    """Yield name, statement and comment of each definition; a tuple of names has the first."""
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, statement, ""
            case ast.AsyncFunctionDef(name=name):
                yield name, statement, ""
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])])
            ):
                yield name, statement, _comment(statement, following, lines)


def _comment(statement: ast.stmt, following: ast.stmt | None, lines: Sequence[str]) -> str:
    """Return the text about a field or constant: `#:` above it, or a docstring below."""
    found: list[str] = []
    for line in reversed(lines[: statement.lineno - 1]):
        if not line.strip().startswith("#:"):
            break
        found.insert(0, line.strip()[2:].strip())
    match following:
        case ast.Expr(value=ast.Constant(value=str(text))):
            found += text.split()
    return " ".join(found)


def _class(definition: ast.ClassDef, lines: Sequence[str]) -> Iterator[str]:
    stubs: list[str] = []
    texts: list[str] = []
    for name, statement, comment in _statements(definition.body, lines):
        if name.startswith("_") and name not in _SHOWN_SPECIAL:
            continue
        stubs.append(_signature(statement))
        described = [prose(comment) + "\n"] if comment else []
        if isinstance(statement, Definition):
            described = list(_docstring(ast.get_docstring(statement) or ""))
        if described:
            texts += [f"**`{name}`**\n", *described]
    bases = ", ".join(ast.unparse(each) for each in definition.bases)
    head = f"class {definition.name}({bases}):" if bases else f"class {definition.name}:"
    body = "\n".join(stubs) or "..."
    yield f"### {definition.name}\n"
    yield from _docstring(ast.get_docstring(definition) or "")
    yield _code(head + "\n" + re.sub(r"^(?=.)", "    ", body, flags=re.MULTILINE))
    yield from texts


def _signature(statement: ast.stmt) -> str:
    """Return a statement without the body of a function; a property reads as a field."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.unparse(statement)
    returns = ast.unparse(statement.returns) if statement.returns else "None"
    decorators = [ast.unparse(each) for each in statement.decorator_list]
    if "property" in decorators:
        return f"{statement.name}: {returns}  # read only"
    kind = "async def" if isinstance(statement, ast.AsyncFunctionDef) else "def"
    arguments = ast.unparse(statement.args)
    above = "".join(f"@{each}\n" for each in decorators)
    line = f"{above}{kind} {statement.name}({arguments}) -> {returns}: ..."
    if len(line) <= _WIDTH:
        return line
    return f"{above}{kind} {statement.name}(\n    {arguments}\n) -> {returns}: ..."


def _code(text: str) -> str:
    return "<!-- generated -->\n" + fence(text, "python")


def _docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring; sections such as `Returns:` become lists."""
    description, *sections = _SECTION.split(inspect.cleandoc(text))
    yield from _paragraphs(description)
    for title, content in zip(sections[::2], sections[1::2], strict=True):
        body = inspect.cleandoc(content)
        if title in {"Returns", "Yields"}:
            yield f"{title}: {prose(' '.join(body.split()))}\n"
            continue
        _, *entries = _ENTRY.split(body)
        pairs = zip(entries[::2], entries[1::2], strict=True)
        items = (f"- `{name}`: {prose(' '.join(about.split()))}\n" for name, about in pairs)
        yield ("Arguments:\n\n" if title == "Args" else "Raises:\n\n") + "".join(items)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text; indented ones are Python."""
    for block in re.split(r"\n{2,}(?=\S)", text.strip()):
        prelude, found, code = block.partition("\n\n    ")
        yield prose(prelude) + "\n"
        if found:
            yield _code(textwrap.dedent("    " + code).strip())
