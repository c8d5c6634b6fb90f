"""The page in a real Chromium: what it shows and asks for, for eyes, keyboard and screen reader."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.recorded import RecordedSource
from scheduler.cli.page.server import PageServer
from scheduler.cli.page.sources import Description
from tests.page.answers import (
    HOSTILE_MESSAGE,
    HOSTILE_NAME,
    NOW,
    Answers,
    decision,
    group_view,
    pod_view,
)
from tests.page.build import axe
from tests.page.chromium import Page
from tests.unit.history.runs import example_run

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

#: A text that a view shows when its answers are there, by address.
VIEWS: Final = {
    "overview": "Resources of all nodes",
    "waiting": "Pod by pod",
    "gangs": "groups shown of 2",
    "decisions": "Pause",
    "nodes": "nodes of 30",
    "pod/team-a/web-1": "None of 18 nodes fits: 16 lack CPU",
    "node/node-00001": "team-a/db-0",
}


async def show(page: Page, view: str, text: str) -> None:
    """Go to a view and wait until it shows a text."""
    await page.evaluate(f"location.hash = {json.dumps('#/' + view)}")
    await page.until(f"document.body.innerText.includes({json.dumps(text)})")


async def set_value(page: Page, selector: str, value: str, event: str) -> None:
    """Change a control as a person would."""
    await page.evaluate(
        f"(() => {{ const control = document.querySelector({json.dumps(selector)});"
        f" control.value = {json.dumps(value)};"
        f" control.dispatchEvent(new Event({json.dumps(event)}, {{bubbles: true}})); }})()"
    )


async def test_all_views_show_without_a_fault_and_ask_this_machine_only(page: Page) -> None:
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        for view, text in VIEWS.items():
            await show(page, view, text)
    assert page.problems == []
    hosts = {urlsplit(url).netloc for url in page.requests}
    assert hosts == {f"127.0.0.1:{server.port}"}


async def test_what_tenants_wrote_is_text_and_shows_its_hidden_characters(page: Page) -> None:
    pods = [pod_view(HOSTILE_NAME, message=HOSTILE_MESSAGE), pod_view("web-1")]
    answers = Answers(pods=pods)
    answers.groups = [group_view(HOSTILE_NAME, text=HOSTILE_MESSAGE)]
    answers.decisions = [
        decision(1, f"team-a/{HOSTILE_NAME}", result="error", message=HOSTILE_MESSAGE)
    ]
    async with PageServer(answers) as server:
        await page.open(server.url)
        for view in ("gangs", "waiting", "decisions"):
            await show(page, view, "<script>document.title='owned'</script>[U+202E]")
            await page.until(
                "document.body.innerText.includes('gnp.exe[U+2066] [U+001B][31mred[U+0007]')"
            )
            assert (
                await page.evaluate("document.querySelectorAll('main img, main script').length")
                == 0
            )
            # A name of a megabyte is neither in the document nor read out.
            assert len(await page.text()) < 20_000
        await page.evaluate("document.querySelector('main table a').click()")
        await page.until("document.querySelector('h1')?.innerText.includes('[U+202E]')")
        # No object can have this name, so it is not asked for.
        await page.until(
            "document.querySelector('[role=alert]')?.innerText.startsWith('pod: give')"
        )
        assert (await page.evaluate("document.title")).startswith("Pod team-a/<script>")
    assert all("status of 400" in problem for problem in page.problems)


async def test_a_group_shows_its_members_as_the_command_counts_them(page: Page) -> None:
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        await show(page, "gangs", "groups shown of 2")
        row = "[...document.querySelector('main tbody tr').children].map((cell) => cell.innerText)"
        assert await page.evaluate(row) == [
            "team-a/train",
            "CRD",
            "Unschedulable",
            "64",
            "10",
            "3",
            "45\npods of train",
            "needs 64 pods, 40 fit at most, 24 do not: short of nvidia.com/gpu on 5 nodes",
        ]
        await set_value(page, "main input[type=search]", "allbound", "input")
        await page.until("document.body.innerText.includes('1 group shown of 2')")
    assert page.problems == []


@pytest.mark.parametrize("address", ["constructor", "toString", "__proto__", "%", "pod/a/b/c"])
async def test_an_address_that_is_no_view_leads_to_the_first_one(page: Page, address: str) -> None:
    async with PageServer(Answers()) as server:
        await page.open(f"{server.url}#/{address}")
        await page.until("document.querySelector('h1')?.innerText.startsWith('2 pods wait: ')")
    assert page.problems == []


async def test_an_address_that_changes_right_after_loading_leads_to_its_view(page: Page) -> None:
    await page.prepare("addEventListener('load', () => { location.hash = '#/gangs'; })")
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        await page.until("document.querySelector('h1')?.innerText === 'Gangs'")
    assert page.problems == []


async def test_the_policy_forbids_html_from_text(page: Page) -> None:
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        attempt = (
            "(() => { try { document.body.innerHTML = '<b>'; } catch { return 'refused'; } })()"
        )
        assert await page.evaluate(attempt) == "refused"


async def test_the_keyboard_alone_leads_to_the_story_of_a_pod(page: Page) -> None:
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        await page.until("document.querySelector('h1')")
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.innerText") == "Skip to content"
        await focus(page, "Waiting pods")
        await page.press("Enter")
        # What is read next is the heading of the new view.
        await page.until("document.activeElement.tagName === 'H1'")
        await page.until("document.activeElement.innerText.startsWith('2 pods wait: ')")
        await page.until("document.querySelector('main table a')")
        await focus(page, "team-a/web-1")
        await page.press("Enter")
        await page.until("document.activeElement.innerText === 'Pod team-a/web-1'")
        await page.until("document.body.innerText.includes('wants 6, most free: 3.5')")
        await page.until("document.body.innerText.includes('remove taint dedicated=x:NoSchedule')")
        first = "First create the pod with schedulerName kubestow. Then one of these:"
        assert await page.evaluate(f"document.body.innerText.includes('{first}')")


async def focus(page: Page, text: str) -> None:
    """Press Tab until what has the focus has this text."""
    for _ in range(60):
        await page.press("Tab")
        if await page.evaluate("document.activeElement.innerText") == text:
            return
    pytest.fail(f"no Tab leads to {text!r}")


async def test_a_pod_is_found_by_its_name(page: Page) -> None:
    async with PageServer(Answers()) as server:
        await page.open(server.url)
        await page.evaluate("document.querySelector('.find input').focus()")
        await page.type("a/b/c")
        await page.press("Enter")
        await page.until("document.querySelector('#find-problem')?.innerText")
        await page.evaluate("document.querySelector('.find input').select()")
        await page.type("team-a/web-9")
        await page.press("Enter")
        await page.until("document.querySelector('h1')?.innerText === 'Pod team-a/web-9'")


async def test_attempts_that_found_the_same_are_folded_behind_the_newest(page: Page) -> None:
    answers = Answers()
    lacking = {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 3}
    found: dict[str, Any] = {"result": "unschedulable", "node": "", "rejections": [lacking]}
    other = {**found, "rejections": [{**lacking, "nodes": 2}]}
    kinds = (other, other, found, found, found)
    answers.decisions = [
        decision(seq, attempt=seq, **each) for seq, each in enumerate(kinds, start=1)
    ]
    async with PageServer(answers) as server:
        await page.open(server.url)
        await show(page, "pod/team-a/web-1", "2 earlier attempts found the same")
        shown = (
            "[...document.querySelectorAll('.timeline h3')]"
            ".filter((each) => each.checkVisibility()).map((each) => each.innerText)"
        )
        assert [each.partition(": ")[0][-9:] for each in await page.evaluate(shown)] == [
            "attempt 5", "attempt 2",
        ]  # fmt: skip
        assert "1 earlier attempt found the same" in await page.evaluate("document.body.innerText")
        await page.evaluate("document.querySelector('.same summary').click()")
        assert len(await page.evaluate(shown)) == 4
    assert page.problems == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("dark", 390)])
async def test_it_is_accessible(page: Page, scheme: str, width: int) -> None:
    source = axe()
    if not source:
        pytest.skip("axe-core is not there; make page fetches it")
    async with PageServer(Answers()) as server:
        await page.size(width, 900)
        await page.prefer(color_scheme=scheme, reduced_motion="reduce")
        await page.open(server.url)
        # The rules are put in by the debugger; the policy of the page would forbid them.
        await page.call("Page.setBypassCSP", enabled=True)
        await page.evaluate(f"{source};true")
        for view, text in VIEWS.items():
            await show(page, view, text)
            found = await page.evaluate(
                "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa',"
                " 'best-practice']}).then((found) => found.violations.map((each) => each.id + ': '"
                " + each.nodes.map((node) => node.html).join(' ').slice(0, 500)))"
            )
            assert found == [], view


async def test_the_theme_follows_the_system_until_one_is_chosen(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    async with PageServer(Answers()) as server:
        await page.prefer(color_scheme="dark")
        await page.open(server.url)
        dark = await page.evaluate(ground)
        await page.prefer(color_scheme="light")
        light = await page.evaluate(ground)
        assert light != dark
        await page.until("document.querySelector('.theme select')")
        await set_value(page, ".theme select", "dark", "change")
        await page.until(f"{ground} === {json.dumps(dark)}")


async def test_five_thousand_nodes_and_twenty_thousand_pods_are_drawn_within_bounds(
    page: Page,
) -> None:
    answers = Answers(pods=[pod_view(f"web-{number}") for number in range(20_000)], nodes=5_000)
    async with PageServer(answers) as server:
        await page.open(f"{server.url}#/waiting")
        await page.until("document.body.innerText.includes('20,000 pods; the 500 that have')")
        assert await page.evaluate("document.querySelectorAll('*').length") < 3_000
        await show(page, "nodes", "5,000 nodes of 5,000")
        assert await page.evaluate("document.querySelectorAll('*').length") < 3_000
        asked = [query["from"] for path, query, _ in answers.asked if path == "/debug/nodes"]
        assert asked[:10] == [str(first) for first in range(0, 5_000, 500)]
        # The nodes of a zone are walked with arrow keys.
        await page.evaluate("document.querySelector('canvas').focus()")
        await page.press("ArrowRight")
        await page.until("document.querySelector('.heatmap p')?.innerText.startsWith('node-00003')")
        await page.press("Enter")
        await page.until("document.querySelector('h1')?.innerText === 'Node node-00003'")
    assert page.problems == []


async def test_what_names_of_nodes_have_in_common_is_said_once(page: Page) -> None:
    async with PageServer(Answers(nodes=30)) as server:
        await page.open(f"{server.url}#/nodes")
        await page.until("document.querySelector('.tile')")
        ends = "import('./tiles.js').then((tiles) => tiles.commonEnds({}))"
        for names, common in {
            ("gke-prod-pool-1-x0k2", "gke-prod-pool-1-y1"): [16, 0],
            ("ip-10-0-0-12.ec2.internal", "ip-10-0-0-3.ec2.internal"): [10, 13],
            ("node-00001", "node-00002"): [0, 0],
            ("a-very-long-name-of-one",): [0, 0],
        }.items():
            found = await page.evaluate(ends.replace("{}", json.dumps(names)))
            assert found == common, names


async def test_filters_are_in_the_address_and_lead_from_a_cause_to_its_pods(page: Page) -> None:
    answers = Answers()
    answers.owners = {"uid-web-1": "Deployment/web"}
    async with PageServer(answers) as server:
        await page.open(server.url)
        await page.until("document.querySelector('.causes a')")
        await page.evaluate("document.querySelector('.causes a').click()")
        await page.until("document.body.innerText.includes('1 pod of 2')")
        assert "cause=are+held" in await page.evaluate("location.hash")
        await show(page, "waiting?owner=team-a%2FDeployment%2Fweb", "Only Deployment web in team-a")
        await page.until("document.body.innerText.includes('1 pod of 2')")
        # Its message is there, folded away.
        assert "Insufficient cpu" not in await page.evaluate(
            "document.querySelector('main table').innerText"
        )
        await page.evaluate("document.querySelector('td summary').click()")
        await page.until("document.querySelector('main table').innerText.includes('Insufficient')")
    assert page.problems == []


async def test_a_table_is_sorted_by_the_title_of_a_column(page: Page) -> None:
    pods = [pod_view(f"web-{number}", attempts=number) for number in (2, 10, 1)]
    names = "[...document.querySelectorAll('main tbody th')].map((each) => each.innerText).join()"
    async with PageServer(Answers(pods=pods)) as server:
        await page.open(f"{server.url}#/waiting")
        await page.until("document.querySelector('.order')")
        await page.evaluate("document.querySelector('.order').click()")
        await page.until(f"{names} === 'team-a/web-1,team-a/web-2,team-a/web-10'")
        order = "document.querySelector('thead th').getAttribute('aria-sort')"
        assert await page.evaluate(order) == "ascending"
        await page.evaluate("document.querySelector('.order').click()")
        await page.until(f"{names} === 'team-a/web-10,team-a/web-2,team-a/web-1'")


async def test_who_may_see_one_namespace_is_asked_for_it(page: Page) -> None:
    answers = Answers()
    answers.failure = QuestionError(403, "forbidden")
    async with PageServer(answers) as server:
        await page.open(server.url)
        await page.until("document.body.innerText.includes('You may not see the whole cluster')")
        await page.evaluate("document.querySelector('main p a').click()")
        await page.until("document.body.innerText.includes('Write the name of one whose pods')")
        answers.failure = None
        await set_value(page, "main input[type=search]", "team-a", "input")
        await page.until("document.querySelector('h1').innerText.startsWith('2 pods wait')")
        assert answers.asked[-1][1]["namespace"] == "team-a"


async def test_who_may_see_one_namespace_begins_with_that_of_the_context(page: Page) -> None:
    answers = Answers()
    answers.description = Description("live", "the leader", namespace="team-a")
    answers.failure = QuestionError(403, "forbidden")
    async with PageServer(answers) as server:
        await page.open(server.url)
        await page.until("location.hash === '#/waiting?namespace=team-a'")
        answers.failure = None
        await page.until("document.querySelector('h1').innerText.startsWith('2 pods wait')")


async def test_pods_on_a_node_that_are_not_bound_yet_are_listed(page: Page) -> None:
    answers = Answers(pods=[])
    async with PageServer(answers) as server:
        await page.open(server.url)
        await show(page, "waiting", "Every pod that names this scheduler has a node.")
        assert "not bound yet" not in await page.text()
        slow = {"namespace": "team-a", "name": "slow-1", "uid": "s", "node": "n7"}
        answers.binding = [{**slow, "since": NOW - 75, "text": "It waits at PreBind for P."}]
        await page.until("document.querySelector('#binding')")
        text = await page.evaluate("document.querySelector('[aria-labelledby=binding]').innerText")
    for part in (
        "On a node, not bound yet",
        "team-a/slow-1",
        "n7",
        "1 m 15 s",
        "at PreBind for P.",
    ):
        assert part in text


async def test_what_is_gone_is_said_so_and_leads_on(page: Page) -> None:
    answers = Answers()
    async with PageServer(answers) as server:
        answers.failure = QuestionError(404, "no pod")
        await page.open(f"{server.url}#/pod/team-a/gone")
        await page.until("document.body.innerText.includes('There is no such pod now')")
        await show(page, "node/gone", "There is no such node, or no longer.")


async def test_a_failure_is_said_and_what_was_known_stays(page: Page) -> None:
    answers = Answers()
    async with PageServer(answers) as server:
        await page.open(f"{server.url}#/decisions")
        await page.until("document.querySelector('main table')")
        answers.failure = QuestionError(502, "cannot reach the scheduler\x1b")
        await page.until("document.querySelector('[role=alert]')")
        alert = await page.evaluate("document.querySelector('[role=alert]').innerText")
        assert alert == "cannot reach the scheduler[U+001B] Shown is the last answer."
        assert await page.evaluate("document.querySelectorAll('main table').length") == 1
        answers.failure = None
        await page.until("!document.querySelector('[role=alert]')")


async def test_a_refusal_of_several_lines_keeps_them(page: Page) -> None:
    answers = Answers()
    answers.failure = QuestionError(502, "cannot reach it:\n  try again\r\n\x1blast\n")
    alert = "document.querySelector('[role=alert]')?.innerText"
    async with PageServer(answers) as server:
        await page.open(f"{server.url}#/nodes")
        await page.until(f"{alert} === 'cannot reach it:\\ntry again\\n[U+001B]last'")
        answers.failure = QuestionError(502, "\n".join(f"line {at}" for at in range(23)))
        await page.until(f"{alert}?.endsWith('line 19 and 3 more')")


async def test_a_list_that_is_cut_says_how_many_more_there_are(page: Page) -> None:
    answers = Answers()
    reasons = [{"plugin": "P", "reason": f"reason {at}", "nodes": 1} for at in range(23)]
    victims = [f"team-a/victim-{at}" for at in range(1_220)]
    answers.decisions = [decision(1, rejections=reasons, victims=victims)]
    async with PageServer(answers) as server:
        await page.open(server.url)
        await show(page, "pod/team-a/web-1", "team-a/victim-19 and 1,200 more")
        text = await page.text()
    assert "reason 19" in text
    assert "reason 20" not in text
    assert "\nand 3 more\n" in text


async def test_the_slider_moves_through_a_recorded_run(page: Page) -> None:
    async with PageServer(RecordedSource(example_run(), "run.json")) as server:
        await page.open(f"{server.url}#/waiting")
        await page.until("document.querySelector('h1')?.innerText === 'No pod waits'")
        await set_value(page, "input[type=range]", "150", "input")
        await page.until("document.querySelector('h1').innerText === '1 pod waits: it lacks CPU'")
        await page.until("document.querySelector('.groups').innerText.includes('2 lack CPU')")
        await show(page, "overview", "Pods waiting")
        views = await page.evaluate("document.querySelector('nav[aria-label=Views]').innerText")
        assert "Gangs" not in views
        await show(page, "nodes", "2 nodes of 2")
        assert page.problems == []
