"""`kubestow plugin check` and `try`, on the examples and on faulty files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.cli.plugin import trying
from scheduler.cli.plugin.sources import PluginSource
from tests.unit.cli.command_line import Shell

EXAMPLES = Path(__file__).parents[3] / "examples"
LIMIT = str(EXAMPLES / "scalar_filter" / "app_limit.py")
TEAMS = """\
from scheduler.framework import unresolvable

class Teams:
    name = "example.com/Teams"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        team = pod.metadata.labels.get("example.com/team")
        return unresolvable("another team") if node.labels.get("example.com/team") != team else None
"""
NEVER_WOKEN = """
    def events_to_register(self):
        return ()
"""
POD = """\
kind: Pod
metadata: {name: mine, labels: {example.com/team: "1"}}
spec: {containers: [{name: main, image: app}], schedulerName: other}
"""

DEPLOYMENT = """\
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {example.com/team: "2"}}
    spec: {containers: [{name: main, image: app}]}
"""


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """Forget the folders and their modules, which other tests import as parts of packages."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("teams", "app_limit", "node_cost", "not_before"):
        sys.modules.pop(name, None)


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    file = tmp_path / "teams.py"
    file.write_text(TEAMS)
    return file


def test_a_good_plugin_is_reported_with_its_speed(shell: Shell) -> None:
    ended = shell("plugin", "check", LIMIT, "--clusters", "3")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("example.com/AppLimit: Filter\n  3 clusters, 45 changes")
    assert "µs a node" in ended.out
    assert "no fault was found" in ended.out


def test_a_folder_is_checked_class_by_class(shell: Shell, teams: Path) -> None:
    (teams.parent / "other.py").write_text(TEAMS.replace("Teams", "Others"))
    (teams.parent / "test_teams.py").write_text("raise SystemExit")
    (teams.parent / "lines.py").write_text("class NoPlugin:\n    pass\n")
    ended = shell("plugin", "check", str(teams.parent), "--clusters", "1", "-o", "json")
    assert [each["name"] for each in json.loads(ended.out)] == [
        "example.com/Others",
        "example.com/Teams",
    ]


def test_a_fault_ends_with_one_and_is_named(shell: Shell, teams: Path) -> None:
    teams.write_text(TEAMS + NEVER_WOKEN)
    ended = shell("plugin", "check", str(teams))
    assert ended.code == 1
    assert "the hint of that event returned SKIP, or the event is not registered" in ended.out
    assert "no fault" not in ended.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["check", LIMIT, "--budget", "0"], 1, "may take 0"),
        (
            ["check", f"{LIMIT}:AppLimit", "--clusters", "1", "--args", '{"limit": 1}'],
            0,
            "no fault",
        ),
        (["check", LIMIT, "--args", '{"limit": 0}'], 1, "lets no pod in"),
        (["check", LIMIT, "--args", "[]"], 2, "is no mapping"),
        (["check", LIMIT, "--args", "{"], 2, "--args"),
        (["check", LIMIT, "--args", "absent.yaml"], 2, "absent.yaml"),
        (["check", f"{LIMIT}:AppLimt"], 1, "did you mean"),
        (["check", "absent.py"], 2, "there is no such folder or Python file"),
        (["try", "absent.py"], 2, "there is no such folder or Python file"),
        (
            ["try", LIMIT, "-f", str(EXAMPLES / "gate_until" / "config.yaml")],
            2,
            "no template of its pods",
        ),
    ],
)
def test_bad_input_is_named(shell: Shell, arguments: list[str], code: int, text: str) -> None:
    ended = shell("plugin", *arguments)
    assert ended.code == code, ended
    assert text in ended.out + ended.err


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def broken(:\n", "teams.py:1: SyntaxError"),
        ("import nothing_like_it\nclass P:\n    name = 'x'\n", "teams.py:1: ModuleNotFoundError"),
        ("x = 1\n", "no class here has a `name`"),
        (TEAMS.replace("def filter", "def fliter"), "does not know fliter"),
    ],
)
def test_a_file_that_is_no_plugin_is_an_error_with_its_line(
    shell: Shell, teams: Path, source: str, text: str
) -> None:
    teams.write_text(source)
    ended = shell("plugin", "check", str(teams))
    assert ended.code in (1, 2)
    assert text in ended.err


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("        return", "        raise KeyError('x')\n        return", "KeyError: 'x' ("),
        ("        return", "        return 3\n        return", "filter answered 3, which is not"),
    ],
)
def test_what_the_plugin_does_wrong_is_named_without_a_traceback(
    shell: Shell, teams: Path, old: str, new: str, text: str
) -> None:
    teams.write_text(TEAMS.replace(old, new, 1))
    for command in (["try", "--once"], ["check"]):
        ended = shell("plugin", *command, str(teams))
        assert ended.code == 1, ended
        assert text in ended.out + ended.err
        assert "Traceback" not in ended.out + ended.err


def test_what_is_wrong_with_many_pods_is_shown_once(shell: Shell, teams: Path) -> None:
    teams.write_text(TEAMS.replace("        return", "        return False\n        return", 1))
    ended = shell("plugin", "check", str(teams))
    faults = [line for line in ended.out.splitlines() if "filter answered False" in line]
    assert len(faults) == 1, ended.out
    assert re.search(r"unschedulable\(REASON\) rejects \(and \d+ other pods\)$", faults[0])
    assert "note:" not in ended.out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero ("),
        ("raise LookupError", "LookupError ("),
    ],
)
def test_a_constructor_that_raises_is_named_with_its_line(
    shell: Shell, teams: Path, line: str, text: str
) -> None:
    constructor = f"    def __init__(self, args, handle):\n        {line}\n\n    def filter"
    teams.write_text(TEAMS.replace("    def filter", constructor, 1))
    ended = shell("plugin", "try", "--once", str(teams))
    assert text in ended.err
    assert "teams.py:" in ended.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("pod.metadata.lables", "has no attribute 'lables'; did you mean \"labels\"? ("),
        ("pod.metadata.nothing_like_it", "has no attribute 'nothing_like_it' ("),
    ],
)
def test_a_misspelt_attribute_is_named_with_what_it_means(
    shell: Shell, teams: Path, line: str, text: str
) -> None:
    source, body = TEAMS.split("    def filter", 1)
    head, rest = body.split("\n", 1)
    teams.write_text(f"{source}    def filter{head}\n        {line}\n{rest}")
    assert text in shell("plugin", "check", "--clusters", "1", str(teams)).out


def test_try_shows_verdicts_and_where_pods_go(shell: Shell, teams: Path) -> None:
    ended = shell("plugin", "try", str(teams))
    assert ended.code == 0, ended.err
    heading, *rows = ended.out.splitlines()[1:]
    assert heading.split() == [
        "POD", "LABELS", "AND", "ANNOTATIONS", "ACCEPTS", "REJECTS", "SCORES", "GOES", "TO",
    ]  # fmt: skip
    # Every node has a team, so the sample without one waits.
    assert rows[0].split()[:3] == ["default/sample-0", "0", "39:"]
    assert rows[0].endswith("waits")
    assert "example.com/team=a" in rows[2]
    assert "example.com/team=b" in rows[5]
    assert "another team" in rows[2]
    assert not rows[2].endswith("waits")


def test_try_takes_pods_of_a_file_and_those_of_deployments(shell: Shell, teams: Path) -> None:
    pods = teams.with_name("pods.yaml")
    pods.write_text(f"{POD}---\n{DEPLOYMENT}")
    ended = shell("plugin", "try", str(teams), "-f", str(pods), "--once")
    assert [row.split()[:2] for row in ended.out.splitlines()[2:]] == [
        ["default/mine", "example.com/team=1"],
        ["default/web", "example.com/team=2"],
    ]


def test_try_shows_a_saved_file_anew_and_survives_its_faults(
    teams: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = [
        TEAMS.replace("another team", "second version"),
        "def broken(:\n",
        TEAMS.replace("return unresolvable", "raise LookupError"),
    ]
    shown: list[str] = []

    def save(_: float) -> None:
        shown.append(capsys.readouterr().out)
        if not versions:
            raise KeyboardInterrupt
        teams.write_text(versions.pop(0) + "#" * len(shown))

    monkeypatch.setattr("scheduler.cli.plugin.trying.time.sleep", save)
    with pytest.raises(KeyboardInterrupt):
        trying.watch(PluginSource.of(str(teams)), None, None)
    assert "another team" in shown[0]
    assert "second version" in shown[1]
    assert "SyntaxError" in shown[2]
    assert "LookupError: another team" in shown[3]
    assert all("watching" in each for each in shown)


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        ("", 0, "there were no objects of example.com/v1/racks"),
        ("apiVersion: example.com/v1\nkind: Rack\nmetadata: {name: r1}\n", 0, "2 clusters"),
        ("apiVersion: example.com/v1\nkind: Shelf\nmetadata: {name: s}\n", 2, "reads no such"),
        ("apiVersion: example.com/v1\nkind: Rack\nspec: {}\n", 2, "no manifest, with kind and"),
        ("a: [", 2, "objects.yaml"),
    ],
)
def test_objects_that_the_plugin_reads_come_from_a_file(
    shell: Shell, teams: Path, content: str, code: int, text: str
) -> None:
    teams.write_text(f'{TEAMS}\n    required_resources = ("example.com/v1/racks",)\n')
    file = teams.with_name("objects.yaml")
    file.write_text(content)
    ended = shell("plugin", "check", str(teams), "--clusters", "2", "--objects", str(file))
    assert ended.code == code
    assert text in " ".join((ended.out + ended.err).split())
