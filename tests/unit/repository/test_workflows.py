"""The workflows grant little, pin what they run, and call targets that exist.

`make lint-workflows` checks their syntax and expressions with actionlint.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.unit.repository.test_project import MAKEFILE, PROJECT
from tests.unit.repository.tree import ROOT

FOLDER: Final = ROOT / ".github" / "workflows"
NAMES: Final = ("ci", "release")
TEXTS: Final = {name: (FOLDER / f"{name}.yml").read_text() for name in NAMES}
WORKFLOWS: Final[dict[str, dict[str, Any]]] = {
    name: yaml.safe_load(text) for name, text in TEXTS.items()
}
PINNED: Final = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
JOBS: Final = [(name, job) for name in NAMES for job in WORKFLOWS[name]["jobs"]]


def steps(name: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of all jobs of a workflow."""
    for job in WORKFLOWS[name]["jobs"].values():
        yield from job["steps"]


def test_these_are_all_workflows() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.yml" for name in NAMES}


def test_actions_are_pinned_by_commit_and_one_action_has_one_version() -> None:
    used = {each for text in TEXTS.values() for each in re.findall(r"uses: (.+)", text)}
    assert used
    assert not [each for each in used if not PINNED.fullmatch(each)]
    actions = [each.partition("@")[0] for each in used]
    assert len(actions) == len(set(actions))


@pytest.mark.parametrize(("name", "job"), JOBS, ids="/".join)
def test_a_job_gets_its_own_permissions_and_a_time_limit(name: str, job: str) -> None:
    found = WORKFLOWS[name]["jobs"][job]
    assert WORKFLOWS[name]["permissions"] == {}
    assert found["permissions"]
    assert 0 < found["timeout-minutes"] <= 120


def test_rights_to_write_are_for_the_jobs_that_publish() -> None:
    writers = {
        job: {right for right, access in found["permissions"].items() if access == "write"}
        for workflow in WORKFLOWS.values()
        for job, found in workflow["jobs"].items()
    }
    assert {job: rights for job, rights in writers.items() if rights} == {
        "image": {"packages"},
        "sign": {"packages", "id-token"},
        "chart": {"packages", "id-token"},
        "pypi": {"id-token"},
        "release": {"contents", "id-token"},
        "docs": {"pages", "id-token"},
    }


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_one_branch_or_tag_do_not_overlap(name: str) -> None:
    assert "github.ref" in WORKFLOWS[name]["concurrency"]["group"]


@pytest.mark.parametrize("name", NAMES)
def test_no_checkout_leaves_its_token_behind(name: str) -> None:
    checkouts = [step for step in steps(name) if "actions/checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("name", NAMES)
def test_no_expression_is_pasted_into_a_script(name: str) -> None:
    """A branch or tag may be named like a command; scripts read variables."""
    assert not [step["run"] for step in steps(name) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("name", NAMES)
def test_the_targets_exist(name: str) -> None:
    lines = [line for step in steps(name) for line in step.get("run", "").splitlines()]
    commands = [words for line in lines if (words := line.split())[0] in {"make", ".ci/run"}]
    targets = {target for words in commands for target in words[1:]}
    phony = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
    assert targets
    assert targets <= phony


def test_ci_runs_on_every_python_that_the_package_names() -> None:
    versions = WORKFLOWS["ci"]["jobs"]["quick"]["strategy"]["matrix"]["python"]
    named = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    ]
    assert named
    assert set(named) <= set(versions)
    assert f">={versions[0]}" == PROJECT["project"]["requires-python"]


@pytest.mark.parametrize(("name", "job"), [("ci", "image"), ("release", "image")], ids="/".join)
def test_an_image_with_a_known_vulnerability_that_has_a_fix_is_refused(name: str, job: str) -> None:
    (scan,) = [
        step
        for step in WORKFLOWS[name]["jobs"][job]["steps"]
        if step.get("uses", "").startswith("anchore/scan-action@")
    ]
    assert scan["with"]["severity-cutoff"] == "high"
    assert scan["with"]["image"]
    assert "continue-on-error" not in scan


def test_nothing_is_published_before_what_it_needs_has_passed() -> None:
    jobs = WORKFLOWS["release"]["jobs"]

    def before(job: str) -> set[str]:
        """Return the jobs that end successfully before this one starts."""
        needed = jobs[job].get("needs", [])
        names = {needed} if isinstance(needed, str) else set(needed)
        return names.union(*map(before, names))

    assert before("sign") == {"build", "image"}
    assert before("pypi") == {"build", "image", "sign", "chart"}
    assert before("release") == {*jobs} - {"release", "docs"}
    assert before("docs") == {*jobs} - {"docs"}
    assert "audit" in next(
        step["run"].split() for step in jobs["build"]["steps"] if ".ci/run" in step.get("run", "")
    )


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("v0.1.0", "--latest"),
        ("v1.2.3.post1", "--latest"),
        ("v1.2.0rc1", "--prerelease"),
        ("v1.2.0a1", "--prerelease"),
        ("v1.2.0.dev3", "--prerelease"),
    ],
)
def test_a_pre_release_is_published_as_one(tag: str, expected: str, tmp_path: Path) -> None:
    (script,) = [step["run"] for step in steps("release") if "gh release" in step.get("run", "")]
    stand_in = tmp_path / "gh"
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    stand_in.chmod(0o755)
    ran = subprocess.run(
        ["/bin/bash", "-e", "-c", script],
        env={"PATH": str(tmp_path), "GITHUB_REF_NAME": tag},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.startswith(f"release create {tag} {expected} --verify-tag --title {tag} ")
