"""Recognition of credentials, wherever they occur."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config import to_data
from scheduler.sanitizing.redaction import BLANK, is_secret_name, redact, redact_text
from tests.unit.config.doubles import load

CANARY = "canary7canary7"
WEB_TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl-_x"
LABEL = "EC PRIVATE KEY"
KEY = f"-----BEGIN {LABEL}-----\nMHcCAQEEI{CANARY}\n-----END {LABEL}-----"
ENCODED_KEY = base64.b64encode(KEY.encode()).decode()

NAMES = (
    *("token", "password", "passwd", "api_key", "apiKey", "X-Api-Key", "secret", "client-secret"),
    *("AWS_SECRET_ACCESS_KEY", "client-key-data", "keyData", "id-token", "refreshToken", "auth"),
    *("private_key", "passphrase", "dbPwd", ".dockerconfigjson", "Proxy-Authorization", "Cookie"),
)

TEXTS = [
    f"sent Bearer {CANARY} to x",
    f"Authorization: Basic {CANARY}",
    f"Authorization: Digest username=x, response={CANARY}",
    f"https://joe:{CANARY}@host/path failed",
    f"https://{CANARY}@host?x=y",
    KEY,
    repr(KEY),
    json.dumps(KEY),
    KEY[:-10],
    f"keyData: {ENCODED_KEY}",
    f"read {ENCODED_KEY}",
    f"got {WEB_TOKEN}, which is none",
    f"https://host/?x=1&access_token={CANARY}&y=2",
    f"--token {CANARY}",
    f"--client-secret={CANARY}",
    f"Command '['plugin', '--token', '{CANARY}']' failed",
    f"users:\n- user:\n    token: my {CANARY} with spaces\n",
    f"password: |\n  a\n  {CANARY}\nnext: 1",
    f"env:\n- name: DB_PASSWORD\n  value: {CANARY}\n",
    f"{{'name': 'API_TOKEN', 'value': '{CANARY}'}}",
    f'credentials: {{"user": "a", "list": ["{CANARY}"]}}',
    f"StaticCredentials(header='Bearer {CANARY}')",
    f"headers={{b'Authorization': b'Bearer {CANARY}'}}",
    f"b'Authorization: Bearer {CANARY}\\r\\nHost: x'",
    f'args.password: Invalid value: "{CANARY}": too short',
    f"the secret: {CANARY}",
    f"Set-Cookie: sid={CANARY}; Path=/",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_credential_in_a_text_is_blanked(text: str) -> None:
    shown = redact_text(text)
    assert BLANK in shown
    for secret in (CANARY, WEB_TOKEN, ENCODED_KEY[:40]):
        assert secret not in shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "form",
    ['{"NAME": "VALUE"}', "{'NAME': 'VALUE'}", "NAME=VALUE", 'NAME="VALUE"', "\n  NAME: VALUE\n"],
)
def test_a_name_is_found_in_every_notation(name: str, form: str) -> None:
    assert is_secret_name(name)
    shown = redact_text(form.replace("NAME", name).replace("VALUE", CANARY))
    assert shown == form.replace("NAME", name).replace("VALUE", BLANK)


@pytest.mark.parametrize(
    "text",
    [
        "cannot review a token: POST /apis/authentication.k8s.io/v1/tokenreviews: 500",
        "token review failed",
        "token file /x/y is empty",
        "secret: not found",
        'pod "ns/secret-reader" is bound',
        "extenders[0].tlsConfig.keyData: illegal base64 data: Incorrect padding",
        "automountServiceAccountToken: false",
        '{"key":"ns/pod","tokens":3,"tokenFile":"/var/run/x"}',
        "secretName: db-credentials",
        'User "system:anonymous" cannot get path "/metrics"',
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        "mail joe@example.com about it",
        "https://host/a@b",
        "credential provider: exit status 1",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB").decode(),
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact_text(text) == text


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))
documents = st.recursive(
    st.one_of(leaves, st.builds(lambda name: {name: CANARY}, st.sampled_from(NAMES))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abcdefgh", min_size=1, max_size=6), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(documents)
def test_at_any_nesting_and_in_any_notation(document: Any) -> None:
    notations = [json.dumps(document), repr(document), yaml.safe_dump(document)]
    notations.append(json.dumps({"annotation": notations[0]}))
    notations.append(json.dumps([notations[-1]]))
    for text in (str(redact(document)), *map(redact_text, notations)):
        assert CANARY not in text


@given(documents)
def test_redacted_data_is_data_and_stays_as_it_is(document: Any) -> None:
    shown = redact(document)
    assert json.loads(json.dumps(shown)) == shown
    assert redact(shown) == shown


fragments = st.sampled_from(
    [
        *("token", "password", "=", ": ", '"', "'", "\\", "\n", " ", "{", "}", "[", "]", ","),
        *("Bearer ", "eyJabc.", "://", "@", "--", "name", "value", f"-----BEGIN {LABEL}-----"),
        *("LS0tLS1CRUdJTi", "abcdefgh12345678", BLANK, "|", "Invalid value: ", "&", "-", "b'"),
    ]
)


@given(st.lists(fragments, max_size=30).map("".join))
def test_redacting_always_ends_and_never_grows_much(text: str) -> None:
    shown = redact_text(text)
    assert len(shown) <= len(text) * len(BLANK) + len(BLANK)


@given(st.text(st.characters(exclude_characters="@"), max_size=60))
def test_a_text_without_any_sign_is_the_same_object(text: str) -> None:
    if redact_text(text) == text and not any(each in text.lower() for each in "paestcjbk"):
        assert redact_text(text) is text


@dataclass
class Login:
    user: str
    password: str


class Sealed(msgspec.Struct):
    login: Login
    url: str


def test_records_and_what_is_no_data_are_shown_without_credentials() -> None:
    sealed = Sealed(Login("joe", CANARY), f"http://joe:{CANARY}@x/")
    shown = redact({"a": [sealed], "b": ValueError(f"Bearer {CANARY}"), "c": b"token=" + b"x" * 9})
    assert shown == {
        "a": [{"login": {"user": "joe", "password": BLANK}, "url": f"http://{BLANK}@x/"}],
        "b": f"Bearer {BLANK}",
        "c": f"b'token={BLANK}'",
    }


def test_nested_data_is_bounded() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    assert BLANK in str(redact(endless, max_values=1_000))
    deep: Any = CANARY
    for _ in range(5_000):
        deep = [deep]
    assert CANARY not in str(redact(deep))


def test_a_configuration_without_credentials_is_shown_as_it_is() -> None:
    data = to_data(load(None))
    assert redact(data) == data


def test_a_digit_far_behind_a_word_of_prose_is_not_looked_for() -> None:
    """Each of many names would look through the rest of the text, in quadratic time."""
    assert redact_text(f"token: {'a' * 256}1") == f"token: {BLANK}"
    for text in (f"token: {'a' * 257}1", "token:" * 20_000 + "a" * 257 + "1"):
        assert redact_text(text) == text
