"""`kubestow explain job/sort`: bounded questions, whatever the owner has."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from devtools.filled_records import filled
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import NO_SUCH_POD, CommandError
from scheduler.cli.owner_explanation import MAX_EXPLAINED, MAX_LISTED
from scheduler.explain.records import ExplainPage, OtherScheduler, WaitingGroup, WaitingPage
from tests.unit.cli.command_line import Shell


class Scheduler:
    """Answers about an owner with many groups of pods."""

    def __init__(self, groups: int, placed: int = 0, *others: OtherScheduler) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.gone = False
        made = [
            WaitingGroup("shop", "Job/sort", f"lack x.io/r{number}", 1000, f"s-{number}", 1.0)
            for number in range(groups)
        ]
        self.waiting = WaitingPage(
            now=61.0, leading=True, namespace="shop", total=9, headline="", causes=[],
            selected=1000 * groups, group_total=groups, groups=made, pods=[], placed=placed,
            others=list(others),
        )  # fmt: skip

    def get(self, path: str, query: dict[str, str]) -> bytes:
        """Return a page."""
        self.asked.append((path, query))
        if path == "/debug/waiting":
            return msgspec.json.encode(self.waiting)
        if path == "/debug/queue" or self.gone:
            raise CommandError("no such pod", NO_SUCH_POD)
        page: ExplainPage = filled(ExplainPage, lambda _: "x", variant=1)
        pod = replace(page.pod, name=query["pod"].partition("/")[2])
        return msgspec.json.encode(msgspec.structs.replace(page, pod=pod))


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Scheduler:
    """Let a scheduler with so many groups answer."""
    made = Scheduler(*request.param)
    monkeypatch.setattr(Endpoint, "get", lambda _, path, query: made.get(path, query))
    return made


@pytest.mark.parametrize("scheduler", [(500, 3)], indirect=True)
def test_few_of_many_groups_are_listed_and_fewer_explained(
    scheduler: Scheduler, shell: Shell
) -> None:
    ended = shell("explain", "job/sort", "-n", "shop")
    assert ended.out.startswith("shop/Job/sort: 500,003 pods, 3 have a node, 500,000 wait\n")
    assert ended.out.count("the longest for 1m") == MAX_LISTED
    assert f"and {500 - MAX_LISTED} other causes: kubestow queue -n shop" in ended.out
    pods = [query["pod"] for path, query in scheduler.asked if path == "/debug/explain"]
    assert pods == [f"shop/s-{number}" for number in range(MAX_EXPLAINED)]
    (about,) = [query for path, query in scheduler.asked if path == "/debug/waiting"]
    assert (about["namespace"], about["owner"]) == ("shop", "shop/Job/sort")


@pytest.mark.parametrize("scheduler", [(1, 0)], indirect=True)
@pytest.mark.parametrize(("search", "limit"), [("quick", "3"), ("all", "20")])
def test_a_longer_search_lists_more_remedies(
    scheduler: Scheduler, search: str, limit: str, shell: Shell
) -> None:
    shell("explain", "job/sort", "-n", "shop", "--remedies", search)
    (query,) = [query for path, query in scheduler.asked if path == "/debug/explain"]
    assert (query["remedies"], query["limit"]) == (search, limit)


@pytest.mark.parametrize("scheduler", [(1, 0)], indirect=True)
def test_a_pod_that_is_gone_meanwhile_is_no_error(scheduler: Scheduler, shell: Shell) -> None:
    scheduler.gone = True
    ended = shell("explain", "job/sort", "-n", "shop")
    assert (ended.code, ended.err) == (0, "")
    assert "1,000 lack x.io/r0, the longest for 1m\n" in ended.out


@pytest.mark.parametrize("scheduler", [(0, 12)], indirect=True)
@pytest.mark.usefixtures("scheduler")
def test_an_owner_whose_pods_all_have_nodes(shell: Shell) -> None:
    ended = shell("explain", "job/sort", "-n", "shop")
    assert ended.out == "shop/Job/sort: 12 pods, 12 have a node, 0 wait\n"


@pytest.mark.parametrize("scheduler", [(0, 12)], indirect=True)
@pytest.mark.parametrize(("ending", "are"), [(1, "is"), (2, "are")])
def test_pods_that_are_being_deleted_are_told_apart(
    scheduler: Scheduler, ending: int, are: str, shell: Shell
) -> None:
    scheduler.waiting = msgspec.structs.replace(scheduler.waiting, ending=ending)
    ended = shell("explain", "job/sort", "-n", "shop")
    placed = f"12 have a node ({ending} {are} being deleted)"
    assert ended.out == f"shop/Job/sort: 12 pods, {placed}, 0 wait\n"


@pytest.mark.parametrize("scheduler", [(0, 0)], indirect=True)
@pytest.mark.usefixtures("scheduler")
def test_an_owner_without_pods_is_an_error_that_says_where_to_look(shell: Shell) -> None:
    ended = shell("explain", "job/sort", "-n", "shop")
    assert ended.code == NO_SUCH_POD
    assert "knows no pod of Job/sort in namespace shop" in ended.err
    assert "kubectl -n shop describe job sort" in ended.err


@pytest.mark.parametrize(
    ("scheduler", "owner", "printed"),
    [
        (
            (0, 0, OtherScheduler("kubestw", 3, 0, "kubestow")),
            "deployment/mis",
            (
                "shop/Deployment/mis: 3 pods, 0 have a node, 0 wait, 3 ask for another scheduler\n"
                '3 pods ask for scheduler "kubestw": did you mean kubestow? '
                "Change spec.template.spec.schedulerName.\n"
            ),
        ),
        (
            (0, 0, OtherScheduler("kubestw", 1, 0, "kubestow")),
            "cj/mis",
            (
                "shop/CronJob/mis: 1 pod, 0 have a node, 0 wait, 1 asks for another scheduler\n"
                '1 pod asks for scheduler "kubestw": did you mean kubestow? Change '
                "spec.jobTemplate.spec.template.spec.schedulerName; Jobs that it has made keep "
                "theirs.\n"
            ),
        ),
        (
            (0, 1, OtherScheduler("default-scheduler", 1, 1)),
            "deployment/mis",
            (
                "shop/Deployment/mis: 1 pod, 1 has a node, 0 wait\n"
                '1 pod was placed by scheduler "default-scheduler", not by this one.\n'
            ),
        ),
        (
            (0, 1, OtherScheduler("x\x1b" + "y" * 300, 3, 1)),
            "sts/mis",
            (
                "shop/StatefulSet/mis: 3 pods, 1 has a node, 0 wait, 2 ask for another scheduler\n"
                f'2 pods ask for scheduler "x?{"y" * 97}…", which is not this one '
                "(spec.template.spec.schedulerName).\n"
                f'1 pod was placed by scheduler "x?{"y" * 97}…", not by this one.\n'
            ),
        ),
    ],
    indirect=["scheduler"],
)
@pytest.mark.usefixtures("scheduler")
def test_pods_that_name_another_scheduler(owner: str, printed: str, shell: Shell) -> None:
    ended = shell("explain", owner, "-n", "shop")
    assert (ended.code, ended.out) == (0, printed)
