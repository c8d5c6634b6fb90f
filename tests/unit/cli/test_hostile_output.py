"""Every command that prints what tenants wrote, in every output format, with hostile texts."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pytest
import yaml

from devtools.filled_records import filled
from scheduler import offline
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import UNREACHABLE, CommandError
from scheduler.cli.main import COMMANDS
from scheduler.cli.shadow_following import End
from scheduler.explain.records import (
    WaitingPage,
    WhatIfResult,
)
from scheduler.explain.records.page_table import PAGES
from scheduler.explain.records.shadow import ShadowSummary
from scheduler.offline.judgement import Judgement
from scheduler.offline.replay import Replay
from scheduler.recording.outcomes import Outcome
from tests.unit.cli.command_line import Shell

HOSTILE: Final = (
    "a\x1b]0;title\x07 b\x9b2J \x9d0;x\x9c \x7f \r\n \u202eback\u2066 \u200b \u2028 \ufeff "
    "\U000e0041 \x00"
)
RECORDS: Final[dict[str, Any]] = {path: entry.record for path, entry in PAGES.items()} | {
    "/debug/whatif": WhatIfResult
}
ASKING: Final = {
    "explain": (["explain", "a/b"], ["explain", "a/b", "-v", "--history"], ["explain", "a/b",
                "--node", "n"], ["explain", "a/b", "-o", "json"],
                ["explain", "job/a"], ["explain", "a/Job/b", "-v", "--history"],
                ["explain", "job/a", "-o", "json"],
                ["explain", "--group", "a/b"], ["explain", "--group", "a/b", "-o", "json"]),
    "gangs": (["gangs"], ["gangs", "-o", "json"]),
    "queue": (["queue"], ["queue", "-o", "wide"], ["queue", "-o", "json"]),
    "top": (["top", "--once"], ["top", "-o", "json"]),
    "whatif": (["whatif", "a/b"], ["whatif", "a/b", "--copies", "2"],
               ["whatif", "a/b", "-o", "json"]),
}  # fmt: skip
ABOUT_FILES: Final = {
    "replay": (["replay", "x"], ["replay", "x", "-o", "wide"], ["replay", "x", "-o", "json"]),
    "simulate": (
        [],
        ["-o", "json"],
        ["-o", "jsonl"],
        ["-o", "csv"],
        ["--compare", "config.yaml"],
        ["--consolidate", "--force"],
        ["--consolidate", "-o", "json"],
        ["--how-many-fit", "pod.json"],
        ["--how-many-fit", "pod.json", "-o", "json"],
        ["--nodes-needed", "node.json"],
        ["--nodes-needed", "node.json", "-o", "json"],
        ["--nodes-needed", HOSTILE],
    ),
}
QUOTA: Final = (
    ["quota", "show"], ["quota", "show", "-o", "json"], ["quota", "drain"],
    ["quota", "drain", "-o", "json"], ["quota", "set", "--cpu", "1", "-n", "x"],
    ["quota", "set", "--cpu", "1", "-n", "x", "-o", "json"],
    ["quota", "set", "--cpu", "1", "-n", "x", "-o", "yaml"],
)  # fmt: skip
PRINT_NOTHING_OF_TENANTS: Final = frozenset(
    # `bundle` and `record` print counts; `ui` serves a page; `plugin` reads the files of its user;
    # `check` prints permissions, and names of roles, see tests/integration/check.
    {"run", "demo", "config", "check", "ui", "bundle", "record", "apiserver", "version", "plugin"}
)


def controls(text: str) -> set[str]:
    """Return what a terminal might obey, apart from line ends."""
    return {
        hex(ord(each))
        for each in text
        if each != "\n" and unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp", "Cs"}
    }


def test_every_command_is_looked_at() -> None:
    known = {*ASKING, *ABOUT_FILES, "quota", "shadow", *PRINT_NOTHING_OF_TENANTS}
    assert known == set(COMMANDS)


@pytest.fixture(params=range(4))
def answers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every request be answered with a page in which every text is hostile."""

    def answer(_: Endpoint, path: str, *__: object, **___: object) -> bytes:
        page = filled(RECORDS[path], lambda _: HOSTILE, variant=request.param)
        return msgspec.json.encode(page)

    monkeypatch.setattr(Endpoint, "get", answer)
    monkeypatch.setattr(Endpoint, "post", answer)


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize("arguments", [each for lines in ASKING.values() for each in lines])
def test_an_answer_of_the_scheduler_controls_no_terminal(
    arguments: list[str], shell: Shell
) -> None:
    ended = shell(*arguments)
    assert ended.code in (0, 3), ended.err
    assert (controls(ended.out), controls(ended.err)) == (set(), set())
    if "json" in arguments:
        assert "\\u009b" in ended.out
        assert HOSTILE in texts(json.loads(ended.out))
    else:
        assert "a?]0;title? b?2J" in ended.out


def texts(value: Any) -> set[str]:
    """Return all texts in nested data."""
    if isinstance(value, dict):
        return set().union(*map(texts, value), *map(texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(texts, value))
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize(
    "arguments", [lines[0] for lines in ASKING.values()], ids=lambda each: str(each[0])
)
def test_an_error_controls_no_terminal(
    arguments: list[str], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise CommandError(f"the leader {HOSTILE} is gone", 5)

    monkeypatch.setattr(Endpoint, "get", fail)
    monkeypatch.setattr(Endpoint, "post", fail)
    ended = shell(*arguments)
    assert (ended.code, controls(ended.out), controls(ended.err)) == (5, set(), set())
    assert r"the leader a\x1b]0;title\x07 b\x9b2J" in ended.err


@pytest.mark.parametrize("status", [200, 404])
def test_an_owner_in_the_cluster_controls_no_terminal(
    status: int, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"template": {"spec": {"schedulerName": HOSTILE}}}
    names = [{"metadata": {"name": f"{'a' * number}{HOSTILE}"}} for number in range(3)]
    failed = {"type": "Failed", "status": "True", "reason": HOSTILE, "message": HOSTILE}
    found = {"kind": "Job", "reason": "NotFound", "spec": spec, "items": names}
    found["status"] = {"conditions": [failed]}
    event = {"reason": HOSTILE, "message": HOSTILE, "lastTimestamp": HOSTILE}
    lacks: dict[str, Any] = {"kind": "Job", "metadata": {"uid": HOSTILE}, "items": [event]}
    lacks |= {"spec": {"parallelism": 1, "template": spec["template"]}}
    lacks["status"] = {"startTime": "x"}

    def read(_: Endpoint, target: str, __: str) -> tuple[int, bytes]:
        shown = lacks if target.startswith("/api/v1/") or "/lacks" in target else found
        return (200 if "limit" in target else status), json.dumps(shown).encode()

    none = WaitingPage(
        now=1.0, leading=True, namespace="b", total=0, headline="", causes=[], selected=0,
        group_total=0, groups=[], pods=[], placed=0,
    )  # fmt: skip

    def get(_: Endpoint, path: str, __: object) -> bytes:
        if path == "/debug/waiting":
            return msgspec.json.encode(none)
        raise CommandError("no pod", 4)

    monkeypatch.setattr(Endpoint, "get", get)
    monkeypatch.setattr(Endpoint, "read_cluster", read)
    code = 0 if status == 200 else 4
    ended = shell("explain", "job/a", "-n", "b")
    assert (ended.code, controls(ended.out), controls(ended.err)) == (code, set(), set())
    assert ended.out.count("title") == (3 if status == 200 else 0)
    ended = shell("explain", "job/lacks", "-n", "b")
    assert (ended.code, controls(ended.out), controls(ended.err)) == (code, set(), set())
    assert ended.out.count("title") == (3 if status == 200 else 0)


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_a_comparison_controls_no_terminal(
    output: str, variant: int, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    page: ShadowSummary = filled(ShadowSummary, lambda _: HOSTILE, variant=variant)
    summary = msgspec.structs.replace(page, judged=1)

    async def follow(_: object, __: object) -> End:
        return End(summary, summary, [HOSTILE])

    monkeypatch.setattr("scheduler.cli.shadow_following.follow", follow)
    ended = shell("shadow", "-o", output)
    code = UNREACHABLE if summary.silent else 0
    assert (ended.code, controls(ended.out), controls(ended.err)) == (code, set(), set())
    assert "title" in ended.out


def test_hostile_scheduler_names_control_no_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = ShadowSummary(began=0.0, now=1.0, names=(HOSTILE,), judged=0, verdicts={})

    async def follow(_: object, __: object) -> End:
        return End(summary, summary, [HOSTILE])

    monkeypatch.setattr("scheduler.cli.shadow_following.follow", follow)
    ended = shell("shadow")
    assert (ended.code, controls(ended.out), controls(ended.err)) == (10, set(), set())
    assert "title" in ended.err


class Replayed:
    """Stands for a replay whose file has hostile texts."""

    unknown: Final = {HOSTILE: 1}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, _: int | None) -> Iterator[Judgement]:
        for result in ("different", "unjudged"):
            outcome: Outcome = filled(Outcome, lambda _: HOSTILE)
            yield Judgement(1, 0.0, HOSTILE, result, HOSTILE, outcome, outcome)


@pytest.mark.parametrize("arguments", ABOUT_FILES["replay"])
def test_a_file_controls_no_terminal(
    arguments: list[str], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replay, "of", lambda *_: Replayed())
    ended = shell(*arguments)
    assert (ended.code, controls(ended.out), controls(ended.err)) == (3, set(), set())
    assert "title" in ended.out


@pytest.mark.parametrize("arguments", ABOUT_FILES["simulate"], ids=" ".join)
def test_a_dump_controls_no_terminal(
    arguments: list[str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, pod = offline.node(HOSTILE, cpu=4), offline.pod(HOSTILE, cpu=1)
    items = [
        node,
        offline.node("other", cpu=4),
        offline.pod(f"{HOSTILE}-1", cpu=1, node=HOSTILE),
        pod,
        offline.pod(f"{HOSTILE}-2", cpu=9),
        {"apiVersion": HOSTILE, "kind": HOSTILE},
    ]
    dump = {"kind": "List", "items": items}
    for name, content in (("pod", pod), ("node", node), ("dump", dump)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    monkeypatch.chdir(tmp_path)
    ended = shell("simulate", "dump.json", *arguments)
    assert ended.code in (0, 3), ended.err
    assert (controls(ended.out), controls(ended.err)) == (set(), set())
    assert "title" in ended.out + ended.err


@pytest.mark.parametrize("arguments", QUOTA)
def test_objects_of_a_cluster_control_no_terminal(
    arguments: list[str], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = {
        "metadata": {"namespace": "x", "name": HOSTILE, "labels": {HOSTILE: HOSTILE}},
        "spec": {"hard": {f"kubestow.io/deferred-{HOSTILE}": "1", HOSTILE: "1"}},
        "status": {"used": {HOSTILE: "1"}},
    }
    pod = {
        "metadata": {"namespace": "x", "name": HOSTILE, "uid": "u"},
        "spec": {
            "schedulingGates": [{"name": HOSTILE}],
            "containers": [{"name": "c", "resources": {"requests": {HOSTILE: "1"}}}],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "message": HOSTILE}],
        },
    }

    def run(_: object, work: Any) -> Any:
        return (quota, True) if "set" in arguments else ([quota], {"x": [pod]})

    monkeypatch.setattr("scheduler.cli.cluster.SelectedCluster.run", run)
    ended = shell(*arguments)
    assert (ended.code, controls(ended.out), controls(ended.err)) == (0, set(), set())
    if "json" in arguments:
        assert json.loads(ended.out) is not None
    elif "yaml" in arguments:
        assert yaml.safe_load(ended.out)["metadata"]["name"] == HOSTILE
