"""Redaction of credentials: in text, and in nested data by the names of fields.

Texts that others wrote are redacted where they enter the scheduler's own records: texts of
exceptions (`text.exceptions`), reasons of statuses (`framework.status`), notes of plugins, messages
in objects of a bundle. What shows whole data, such as log lines, `/configz`, debug pages and errors
of the command line, is redacted as it is written. Pure. Invariants: time is linear in the length of
the text, redaction is idempotent, and text without a credential is unchanged.

A credential without any sign of being one (no known name, scheme or form) is not found: code that
handles credentials must not put them into messages in the first place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final

import msgspec

BLANK: Final = "[redacted]"

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 100_000
"""Limit of containers and objects in nested data; the rest is blanked unread."""

# -- names ---------------------------------------------------------------------------------------

_ENDINGS: Final = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "keydata",
    "authorization",
    "cookie",
)
_NAMES: Final = frozenset({"pass", "pw", "auth", "jwt", "dockerconfigjson", "dockercfg"})

_WEAK: Final = frozenset({"token", "secret", "credential", "credentials", "cookie", "keydata"})
"""Names that are also words of prose, where a colon may follow: `cannot review a token: POST ...`.
There only what looks random is blanked."""


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field, key, header or variable with this name holds a credential.

    >>> [is_secret_name(each) for each in ("api_key", "client-key-data", "idToken", "DB_PASSWD")]
    [True, True, True, True]
    >>> [is_secret_name(each) for each in ("key", "secretName", "tokenFile", "tokens")]
    [False, False, False, False]
    """
    plain = _plain_name(name)
    return plain in _NAMES or plain.endswith(_ENDINGS)


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "").replace(" ", "")


# -- text ----------------------------------------------------------------------------------------

_SIGNS: Final = (
    *("pass", "pw", "secret", "token", "credential", "api", "access", "private", "data", "auth"),
    *("cookie", "jwt", "docker", "bearer", "basic", "eyj", "ls0t", "@", "://"),
)
"""Every text that the expressions below change contains one of these, in lower case. The search for
them takes a tenth of the expressions' time."""

_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic)(\s++|%20|\+)[A-Za-z0-9._~+/=-]{8,}+")
_USER_INFO: Final = re.compile(r"""://[^/\s?#"'<>\\]*@""")
# It stops at the next `://`: going further from each of many would be quadratic.
_QUERY: Final = re.compile(r"""(://(?:[^\s?#"'<>\\:]|:(?!//))*+\?)[^\s#"'<>\\]++""")
_WORD: Final = re.compile(r"[A-Za-z0-9_=.-]{16,}+")
_ENCODED_PEM: Final = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*+")
_ENCODED_CERTIFICATE: Final = "LS0tLS1CRUdJTiBDRVJU"
_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")

_NAME: Final = re.compile(
    r"""(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z0-9_.-]++)"""
    r"""(?:(?P<assigned>(?:\\*+["'])?\s*+(?P<sign>=>|:=|[:=])\s*+)"""
    r"""|(?P<flag>\s++|\\*+["'],\s*+(?=\\*+["'])))"""
)
"""A name and what comes before its value: `name: `, `"name":`, `name=`, `--name `, `'--name', `."""

_QUOTE: Final = re.compile(r"""b?(\\*+)(["'])""")
_BARE: Final = re.compile(r"""(?:[^\s"',;&})\]\\]|\\[^n"'])++""")
_LINE: Final = re.compile(r"""(?:[^\r\n"'\\]|\\[^n"'])++""")
_BLOCK: Final = re.compile(r"[|>][+-]?[ \t]*+(?:\r?\n[ \t]++[^\n]*+)++")
_PHRASE: Final = re.compile(r"(?:Invalid|Unsupported|Duplicate) value:\s*+")
"""Text of Kubernetes between a path and the value that it rejects."""
_NOTHING: Final = re.compile(r"(?i)(?:null|none|true|false|~)\b")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_LINE_START: Final = re.compile(r"(?:^|[\r\n]|\\n)[ \t]*+(?:-[ \t]++)?+\Z")
# A digit within 256 characters: looking further after each of many names would be quadratic.
_RANDOM: Final = re.compile(r"(?=[^\s\"',;&})\]\\\d]{0,256}+\d)[A-Za-z0-9._~+/=-]{12,}+")
_TOKEN_COMMAND: Final = re.compile(
    r"\$\(kubectl(?: --(?:kubeconfig|context)=[\w.~@:/+-]{1,999}){0,2}"
    r"(?: -n [a-z0-9-]{1,63})? create token [a-zA-Z0-9.-]{1,253}\)"
)
"""How a token is made, in our own texts: it is all of the value, so no token is there."""
_VALUE_OF: Final = re.compile(r"""(?:\\*+["'])?([A-Za-z0-9_.-]++)""")

_MAX_CACHED: Final = 1024
"""Longest text that is cached, in characters, and number of cached texts: some MiB at most."""

_NEAR: Final = 256
"""Maximum distance, in characters, from `name: X` to the `value:` of the same variable."""


def redact_text(text: str) -> str:
    r"""Replace every credential in the text by `[redacted]`.

    >>> redact_text('GET https://joe:pw@x/?sig=1 sent {"password": "a\\"b", "n": 1}')
    'GET https://[redacted]@x/?[redacted] sent {"password": "[redacted]", "n": 1}'
    """
    if not may_hold_credential(text):
        return text
    if "-----BEGIN " in text:
        text = _without_private_keys(text)
    text = _ENCODED_PEM.sub(_encoded_pem, text)
    text = _WORD.sub(_web_token, text)
    text = _without_named(text)
    text = _USER_INFO.sub(f"://{BLANK}@", text)
    # Whatever the parameters are called: `sig`, `code` and `key` grant access as well.
    text = _QUERY.sub(rf"\1{BLANK}", text)
    return _SCHEME.sub(rf"\1\2{BLANK}", text)


def shown_url(url: str) -> str:
    """Return a URL without the parts that may hold a credential: user info, query, fragment.

    >>> shown_url("https://joe:pw@scores.example.com:8443/v1?code=1#x")
    'https://scores.example.com:8443/v1'
    """
    scheme, separator, rest = url.partition("://")
    plain = rest.partition("#")[0].partition("?")[0]
    authority, slash, path = plain.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def may_hold_credential(text: str) -> bool:
    """Whether `redact_text` has to look at the text in detail; False for most texts."""
    return any(map(text.lower().__contains__, _SIGNS))


def redact_message(message: str) -> str:
    """Redact a text that comes again and again, such as a message that many pods share; cached."""
    return _cached(message) if len(message) <= _MAX_CACHED else redact_text(message)


@lru_cache(maxsize=_MAX_CACHED)
def _cached(message: str) -> str:
    return redact_text(message)


def _without_private_keys(text: str) -> str:
    pieces, at = [], 0
    while begin := _PEM_BEGIN.search(text, at):
        end = _PEM_END.search(text, begin.end())
        pieces += [text[at : begin.start()], BLANK]
        at = len(text) if end is None else end.end()
    return "".join([*pieces, text[at:]])


def _encoded_pem(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith(_ENCODED_CERTIFICATE) else BLANK


def _web_token(found: re.Match[str]) -> str:
    """Blank a JWT or JWE: base64 of `{"`, then parts after dots."""
    word = found[0]
    begin = word.find("eyJ")
    if begin < 0 or "." not in word[begin:]:
        return word
    return word[:begin] + BLANK


def _without_named(text: str) -> str:
    """Blank the values that follow names of credentials."""
    pieces: list[str] = []
    done = at = 0
    value_is_secret_until = -1
    while found := _NAME.search(text, at):
        at = found.end()
        name = found["name"]
        if found["flag"] is not None and not name.startswith("--"):
            continue
        plain = name.lower()
        if plain == "name":
            # An environment variable: name and value are two fields.
            named = _VALUE_OF.match(text, at)
            if named is not None and is_secret_name(named[1]):
                value_is_secret_until = at + _NEAR
                at = named.end()
            continue
        belongs_to_name = plain == "value" and found.start() < value_is_secret_until
        if not (belongs_to_name or is_secret_name(name)):
            continue
        span = _value_span(text, found)
        if span is not None:
            pieces += [text[done : span[0]], BLANK]
            done = at = span[1]
    if not pieces:
        return text
    return "".join([*pieces, text[done:]])


def _value_span(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value after a name; None if there is nothing to hide."""
    at = found.end()
    phrase = _PHRASE.match(text, at)
    if phrase is not None:
        at = phrase.end()
    quote = _QUOTE.match(text, at)
    if quote is not None:
        end = _closing_quote(text, quote)
        if _TOKEN_COMMAND.fullmatch(text, quote.end(), end):
            return None
        return quote.end(), end
    if text.startswith(BLANK, at) or _NOTHING.match(text, at):
        return None
    if text.startswith(("{", "["), at):
        return at, _closing_bracket(text, at)
    return _bare_span(text, at, found)


def _bare_span(text: str, at: int, found: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of a value without quotes that begins at `at`."""
    name, assigned = _plain_name(found["name"].rpartition(".")[2]), found["assigned"]
    pattern = _BARE
    if assigned is not None and found["sign"] == ":" and not _QUOTE.match(assigned):
        line = _LINE_START.search(text, max(0, found.start() - 64), found.start())
        weak = name in _WEAK
        if line is not None and (line[0] or not weak):
            pattern = _BLOCK if _BLOCK.match(text, at) else _LINE
        elif weak:
            pattern = _RANDOM
    if name.endswith("authorization"):
        # Scheme and credential.
        pattern = _LINE
    value = pattern.match(text, at)
    return None if value is None else value.span()


def _closing_quote(text: str, quote: re.Match[str]) -> int:
    """Return the index of the closing quote, escaped as the opening one, or the end."""
    at, escape = quote.end(), len(quote[1])
    while (found := text.find(quote[2], at)) >= 0:
        before = found
        while before > quote.end() and text[before - 1] == "\\":
            before -= 1
        escaped = found - before
        # Less escaped than the opening quote: the end of the text that all of this is quoted in.
        if escaped <= escape or (not escape and escaped % 2 == 0):
            return max(quote.end(), found - min(escape, escaped))
        at = found + 1
    return len(text)


def _closing_bracket(text: str, at: int) -> int:
    depth = 0
    for found in _BRACKET.finditer(text, at):
        depth += 1 if found[0] in "{[" else -1
        if not depth:
            return found.end()
    return len(text)


# -- data ----------------------------------------------------------------------------------------


def redact(value: object, *, max_values: int = MAX_VALUES) -> Any:
    """Copy nested data as plain JSON data without credentials.

    Values under the name of a credential are blanked whatever they are, but for None and booleans;
    so is the `value` next to such a `name`. Texts are redacted as texts; an object that is no data
    becomes its text.
    """
    return _Walk(max_values).value(value, 0)


def redact_field(name: str, value: object) -> Any:
    """Redact the value of one named field."""
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_secret_name(name):
        return BLANK
    if isinstance(value, int | float):
        return value
    return redact_message(value) if isinstance(value, str) else redact(value)


class _Walk:
    def __init__(self, max_values: int) -> None:
        self._left = max_values

    def value(self, value: object, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return redact_text(value)
        self._left -= 1
        if depth >= MAX_DEPTH or self._left < 0:
            return BLANK
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | AbstractSet):
            return [self.value(each, depth + 1) for each in value]
        return self._other(value, depth)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        named = value.get("name")
        hides_value = isinstance(named, str) and is_secret_name(named)
        return {
            str(key): BLANK
            if not (inner is None or isinstance(inner, bool) or inner == "")
            and (is_secret_name(str(key)) or (hides_value and key == "value"))
            else self.value(inner, depth + 1)
            for key, inner in value.items()
        }

    def _other(self, value: object, depth: int) -> Any:
        if isinstance(value, msgspec.Struct):
            fields = value.__struct_fields__
        elif isinstance(value, type) or not hasattr(value, "__dataclass_fields__"):
            return redact_text(str(value))
        else:
            fields = tuple(value.__dataclass_fields__)
        return self._mapping({name: getattr(value, name, None) for name in fields}, depth)
