"""Parses a CEL expression into its syntax tree.

Source: the CEL language definition, "Syntax". Lark generates the LALR(1) parser, which works
without recursion, so the text decides neither its depth nor its time: that is linear.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import lark

from scheduler.cel import literals
from scheduler.cel.errors import CompileError
from scheduler.cel.macros import expand
from scheduler.cel.metering import Meter
from scheduler.cel.syntax import (
    MAX_DEPTH,
    Call,
    Conditional,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapLiteral,
    Node,
    Select,
    children,
)

MAX_LENGTH: Final = 10 * 1024
"""Bytes of an expression, as the API server limits selectors (`resource.k8s.io/v1`,
`CELSelectorExpressionMaxLength`)."""

RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
        "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
"""Words that are no identifiers, but may name a field."""

GRAMMAR: Final = r"""
?start: expression
?expression: disjunction | disjunction "?" disjunction ":" expression -> conditional
?disjunction: conjunction ("||" conjunction)+ -> either | conjunction
?conjunction: relation ("&&" relation)+ -> both | relation
?relation: addition | relation RELATION addition -> binary | relation IN addition -> binary
?addition: multiplication | addition (PLUS | MINUS) multiplication -> binary
?multiplication: unary | multiplication MULTIPLY unary -> binary
?unary: member | NOT+ member -> negation | MINUS+ member -> negation
?member: primary
    | member "." NAME -> select
    | member "." "?" NAME -> optional_select
    | member "." NAME "(" [arguments] ")" -> method
    | member "[" expression "]" -> index
    | member "[" "?" expression "]" -> optional_index
?primary: NAME -> identifier
    | "." NAME -> rooted
    | NAME "(" [arguments] ")" -> function
    | "." NAME "(" [arguments] ")" -> function
    | "(" expression ")" -> parentheses
    | "[" [elements] ","? "]" -> list_literal
    | "{" [entries] ","? "}" -> map_literal
    | literal
arguments: expression ("," expression)*
elements: element ("," element)*
element: expression | "?" expression -> optional_element
entries: entry ("," entry)*
entry: expression ":" expression | "?" expression ":" expression -> optional_entry
!literal: INTEGER | UNSIGNED | FLOAT | TEXT | BYTES | "true" | "false" | "null"

RELATION: "<=" | "<" | ">=" | ">" | "==" | "!="
IN: "in"
PLUS: "+"
MINUS: "-"
NOT: "!"
MULTIPLY: "*" | "/" | "%"
NAME: /[_a-zA-Z][_a-zA-Z0-9]*/
FLOAT.3: /[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+([eE][+-]?[0-9]+)?/
UNSIGNED.2: /(0x[0-9a-fA-F]+|[0-9]+)[uU]/
INTEGER.1: /0x[0-9a-fA-F]+|[0-9]+/
TEXT.4: /[rR]?(\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?''')/s
    | /[rR](\"[^\"\n\r]*\"|'[^'\n\r]*')/ | /\"([^\\\"\n\r]|\\.)*\"|'([^\\'\n\r]|\\.)*'/
BYTES.5: /([bB][rR]?|[rR][bB])(\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?''')/s
    | /([bB][rR]|[rR][bB])(\"[^\"\n\r]*\"|'[^'\n\r]*')/
    | /[bB](\"([^\\\"\n\r]|\\.)*\"|'([^\\'\n\r]|\\.)*')/
COMMENT: /\/\/[^\n]*/
%ignore /[ \t\n\f\r]+/
%ignore COMMENT
"""


_TOKEN_WORK: Final = 40
"""Units of work to parse a token."""
PIECE: Final = 1100
"""Tokens that are parsed in one piece, some 20 ms, with two checks for interruption."""


class Parsing:
    """An expression that is parsed in pieces."""

    __slots__ = ("_expression", "_last", "_parsing", "_tokens")

    def __init__(self, expression: str) -> None:
        """Begin; raises `CompileError` beyond `MAX_LENGTH`."""
        size = len(expression.encode(errors="surrogatepass"))
        if size > MAX_LENGTH:
            raise CompileError(f"the expression has {size} bytes, above the limit of {MAX_LENGTH}")
        self._expression = expression
        self._parsing = parser().parse_interactive(expression)
        self._tokens = self._parsing.iter_parse()
        self._last: lark.Token | None = None

    def advance(self, meter: Meter) -> Node | None:
        """Parse the next piece; return the syntax tree at the end, and None before.

        Raises `CompileError` for other than one expression, and beyond `MAX_DEPTH`.
        """
        try:
            for number, token in enumerate(self._tokens, start=1):
                self._last = token
                meter.spend(_TOKEN_WORK)
                if number == PIECE:
                    return None
            tree = self._parsing.feed_eof(self._last)  # type: ignore[no-untyped-call]
        except lark.exceptions.VisitError as error:
            if isinstance(error.orig_exc, CompileError):
                raise error.orig_exc from None
            raise
        except lark.exceptions.UnexpectedInput as error:
            raise _syntax_error(self._expression, error) from None
        assert isinstance(tree, Node)
        return tree


def tokens(expression: str) -> list[lark.Token]:
    """Return the tokens, without white space and comments; raises `CompileError`."""
    try:
        return list(parser().lex(expression))
    except lark.exceptions.UnexpectedInput as error:
        raise _syntax_error(expression, error) from None


def _syntax_error(expression: str, error: lark.exceptions.UnexpectedInput) -> CompileError:
    offset: int = getattr(error, "pos_in_stream", 0) or 0
    is_end = isinstance(error, lark.exceptions.UnexpectedToken) and error.token.type == "$END"
    shown = "the end" if is_end else repr(expression[offset : offset + 1])
    return CompileError(f"Syntax error: unexpected {shown}", offset)


@cache
def parser() -> lark.Lark:
    """Return the parser with its tables, which take some 100 ms to make."""
    return lark.Lark(GRAMMAR, parser="lalr", transformer=_Builder(), maybe_placeholders=True)


def _checked(node: Node) -> Node:
    """Set the depth of a new node, and refuse it beyond the limit."""
    node.depth = max((each.depth for each in children(node)), default=0) + 1
    if node.depth > MAX_DEPTH:
        raise CompileError(f"expression recursion limit exceeded: {MAX_DEPTH}", node.offset)
    return node


class _Builder(lark.Transformer[Any, Node]):
    """Builds nodes while the text is parsed; methods have the names of the grammar's rules."""

    def conditional(self, found: list[Any]) -> Node:
        return _checked(Conditional(*found, offset=found[0].offset))

    def either(self, found: list[Any]) -> Node:
        return _checked(Logical("||", found, offset=found[0].offset))

    def both(self, found: list[Any]) -> Node:
        return _checked(Logical("&&", found, offset=found[0].offset))

    def binary(self, found: list[Any]) -> Node:
        left, operator, right = found
        return _checked(Call(f"_{operator}_", [left, right], offset=operator.start_pos))

    def negation(self, found: list[Any]) -> Node:
        *operators, operand = found
        if len(operators) % 2 == 0:
            # As the language definition has it: an even number of signs stands for none.
            return operand  # type: ignore[no-any-return]
        if operators[0] == "-" and isinstance(operand, Literal) and operand.depth == 1:
            # Without parentheses, which make it a call.
            negated = literals.negated(operand)
            if negated is not None:
                return negated
        function = "-_" if operators[0] == "-" else "!_"
        return _checked(Call(function, [operand], offset=operators[0].start_pos))

    def select(self, found: list[Any]) -> Node:
        operand, name = found
        return _checked(Select(operand, str(name), offset=name.start_pos - 1))

    def optional_select(self, found: list[Any]) -> Node:
        operand, name = found
        return _checked(Select(operand, str(name), optional=True, offset=name.start_pos - 1))

    def method(self, found: list[Any]) -> Node:
        target, name, arguments = found
        call = Call(str(name), [target, *(arguments or ())], is_member=True)
        call.offset = name.start_pos - 1
        return _checked(expand(call))

    def index(self, found: list[Any]) -> Node:
        operand, key = found
        return _checked(Index(operand, key, offset=key.offset))

    def optional_index(self, found: list[Any]) -> Node:
        operand, key = found
        return _checked(Index(operand, key, optional=True, offset=key.offset))

    def identifier(self, found: list[Any]) -> Node:
        (name,) = found
        if name in RESERVED:
            raise CompileError(f"reserved identifier: {name}", name.start_pos)
        return Identifier(str(name), offset=name.start_pos)

    def rooted(self, found: list[Any]) -> Node:
        return self.identifier(found)

    def function(self, found: list[Any]) -> Node:
        name, arguments = found
        if name in RESERVED:
            raise CompileError(f"reserved identifier: {name}", name.start_pos)
        return _checked(expand(Call(str(name), list(arguments or ()), offset=name.start_pos)))

    def parentheses(self, found: list[Any]) -> Node:
        (inner,) = found
        inner.depth += 1
        if inner.depth > MAX_DEPTH:
            raise CompileError(f"expression recursion limit exceeded: {MAX_DEPTH}", inner.offset)
        node: Node = inner
        return node

    def arguments(self, found: list[Any]) -> list[Node]:
        return found

    def elements(self, found: list[Any]) -> list[tuple[bool, Node]]:
        return found

    def element(self, found: list[Any]) -> tuple[bool, Node]:
        return False, found[0]

    def optional_element(self, found: list[Any]) -> tuple[bool, Node]:
        return True, found[0]

    def list_literal(self, found: list[Any]) -> Node:
        elements = found[0] or ()
        optional = frozenset(i for i, (is_optional, _) in enumerate(elements) if is_optional)
        return _checked(ListLiteral([node for _, node in elements], optional))

    def entries(self, found: list[Any]) -> list[tuple[bool, Node, Node]]:
        return found

    def entry(self, found: list[Any]) -> tuple[bool, Node, Node]:
        return False, found[0], found[1]

    def optional_entry(self, found: list[Any]) -> tuple[bool, Node, Node]:
        return True, found[0], found[1]

    def map_literal(self, found: list[Any]) -> Node:
        entries = found[0] or ()
        optional = frozenset(i for i, (is_optional, *_) in enumerate(entries) if is_optional)
        keys, values = [key for _, key, _ in entries], [value for *_, value in entries]
        return _checked(MapLiteral(keys, values, optional))

    def literal(self, found: list[Any]) -> Node:
        (token,) = found
        return literals.read(token.type, str(token), token.start_pos)
