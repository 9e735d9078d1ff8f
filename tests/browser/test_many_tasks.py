"""Lists of tasks in a browser: found by a query, chosen by keyboard, dead ones run again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pages import PagesUnderTest, pages
from screen import DESK, PHONE, Screen, barriers, overflow

from supervisor.model.access import Role
from supervisor.model.outcome import raised
from supervisor.model.record import Ending, Owner
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import State
from supervisor.store import Ledger

POLICY = RetryPolicy(max_retries=0, base_s=10, max_s=3600, max_crashes=1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("many")) as made:
        made.add_user("anna", Role.OPERATOR)
        yield made


@pytest.fixture(scope="module")
def dead(site: PagesUnderTest) -> list[str]:
    """Tasks that ended FAILED by the same error."""
    site.app.submit_many([{"type": "import_row", "params": {}} for _ in range(12)])
    ledger = Ledger(site.client.reader.store)
    now = ledger.clock.now()
    owners = [Owner(f"worker_{n}", 100 + n, 1) for n in range(12)]
    with ledger.transaction() as tx:
        claims = tx.claim(owners, node_id="n", queues=None, types={"import_row"}, now=now)
        tx.finish([
            Ending(task_id=one.task_id, attempt=1, policy=POLICY, ended_at=now,
                   outcome=raised("ConnectionError", f"to 10.0.0.{n}: refused", ""))
            for n, one in enumerate(claims)
        ])  # fmt: skip
    return [one.task_id for one in claims]


@pytest.mark.parametrize("how", [{"viewport": DESK, "color_scheme": "light"},
                                 {"viewport": PHONE, "color_scheme": "dark"}])  # fmt: skip
def test_every_list_can_be_used_by_everybody(
    site: PagesUnderTest, browser: Screen, dead: list[str], how: dict[str, object]
) -> None:
    browser.expect("the server responded with a status of 400")
    act = site.client.bulk.begin("cancel", "type:none", by="ann", reason="none")
    page = browser.signed_in(site, "anna", **how)
    for path in ("tasks?q=type:import_row", "tasks?q=stat:failed", "tasks?q=nothing", "dead",
                 "bulk", f"bulk/{act.bulk_id}"):  # fmt: skip
        page.goto(site.base + path)
        assert (path, barriers(page), overflow(page)) == (path, [], [])
    page.goto(f"{site.base}tasks?q=type:import_row")
    page.get_by_text("Words to find by").click()
    assert (barriers(page), overflow(page)) == ([], [])
    page.get_by_label("all that this query finds").check()
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector("h1:text('Run again: all')")
    assert (barriers(page), overflow(page)) == ([], [])


def test_tasks_are_chosen_by_keyboard_and_canceled(site: PagesUnderTest, browser: Screen) -> None:
    ids = [one.task_id for one in site.app.submit_many([{"type": "mail", "params": {}}] * 60)]
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}tasks")
    page.keyboard.press("/")
    page.keyboard.type("type:mail state:pending")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks?q=*")
    page.wait_for_selector("text=60 tasks")
    for key in "jxjx":
        page.keyboard.press(key)
    assert page.locator("input[name=chosen]:checked").count() == 2
    page.get_by_label("Reason").fill("wrong month")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".flash")
    assert page.locator(".flash").inner_text() == "Cancel: 2 canceled"
    assert "58 tasks" in page.locator("#tasks-found").inner_text()
    states = [site.client.view(one).state for one in ids]
    assert states == [State.PENDING] * 58 + [State.CANCELED] * 2
    page.keyboard.press("n")
    page.wait_for_url("**before=*")
    assert page.locator("tbody tr").count() == 8
    page.get_by_role("link", name="Newer").click()
    page.wait_for_url("**after=*")
    assert page.locator("tbody tr").count() == 50


def test_a_group_of_dead_letters_runs_again(
    site: PagesUnderTest, browser: Screen, dead: list[str]
) -> None:
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}dead")
    row = page.locator("tbody tr")
    assert "ConnectionError to …: refused" in row.inner_text().replace("\n", " ")
    row.get_by_role("button").click()
    page.wait_for_selector("h1:text('Run again: all 12 tasks')")
    page.get_by_label("Reason").fill("it is up again")
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector("#progress h1:text('done')", timeout=30_000)
    assert page.get_by_role("button", name="Stop it").count() == 0
    assert {site.client.view(one).state for one in dead} == {State.PENDING}


@pytest.mark.parametrize("is_scripted", [True, False])
def test_a_copy_is_where_an_act_leads_to_and_says_so(
    site: PagesUnderTest, browser: Screen, is_scripted: bool
) -> None:
    task_id = site.app.submit_many([{"type": "once", "params": {}}])[0].task_id
    site.client.cancel([task_id], by="ann", reason="wrong hour")
    page = browser.signed_in(site, "anna", java_script_enabled=is_scripted)
    page.goto(f"{site.base}tasks/{task_id}")
    page.get_by_label("Reason").fill("now it is right")
    page.get_by_role("button", name="Submit a copy").click()
    page.wait_for_url(lambda url: "/tasks/task_" in url and task_id not in url)
    assert page.locator("main .flash.done").inner_text() == "This is the copy: it is due now."
    page.reload()
    assert page.locator("main .flash.done").count() == 0
