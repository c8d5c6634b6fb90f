"""Our own texts about options for secrets hold no secret, and stay as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.sanitizing.redaction import redact_text

ROOT = Path(__file__).parents[3]
SIGNS = ("--token", "--password", "--client-key", "authorization=", "$(kubectl")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield what a module may print: its texts with spaces, an `x` in each place of a format."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (each.value if isinstance(each, ast.Constant) else "x" for each in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def test_no_text_of_ours_is_redacted() -> None:
    found = 0
    for path in sorted(
        each for part in ("scheduler", "config") for each in (ROOT / part).rglob("*.py")
    ):
        source = path.read_text()
        if any(sign in source for sign in SIGNS):
            for text in texts(ast.parse(source.replace("{kubectl}", "kubectl"))):
                if any(sign in text for sign in SIGNS):
                    found += 1
                    assert redact_text(text) == text, path
    assert found > 5


def test_how_a_token_is_made_is_shown_with_the_options_of_the_user() -> None:
    options = "--kubeconfig=/srv/my-kube.yaml --context=ann@prod"
    text = f'--token "$(kubectl {options} -n kubestow-system create token SERVICEACCOUNT)"'
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "secret",
    [
        '--token "sesame"',
        'token: "$(kubectl) sesame"',
        '--token "$(echo sesame)"',
        '--token "$(kubectl --token sesame get pods)"',
        '--token "$(kubectl --context=a --token=sesame create token b)"',
        '--token "$(kubectl -n a create token b)sesame"',
        '--token "$(kubectl create token b) sesame',
    ],
)
def test_what_only_looks_like_a_command_is_redacted(secret: str) -> None:
    assert "sesame" not in redact_text(secret)
