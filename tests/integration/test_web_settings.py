"""The pages of settings, users and tokens: what is shown to whom, and what each form does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pages import PASSWORD, Answer, Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.model.record import NodeRecord
from supervisor.node.process import own_identity
from supervisor.store import Transaction

OTHER = "quite another word"
HERE = "/settings/access"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    given = {"timeout": "77", "queue": "redis://:canary-7f3@127.0.0.1:1/0"}
    with pages(tmp_path_factory.mktemp("settings"), **given) as made:
        made.add_user("root", Role.ADMIN)
        made.add_user("otto", Role.OPERATOR)
        made.add_user("vera")
        yield made


def signed_in(site: PagesUnderTest, name: str) -> Browser:
    browser = site.browser()
    assert browser.sign_in(name).heading == "Overview"
    return browser


@pytest.fixture(scope="module")
def root(site: PagesUnderTest) -> Browser:
    return signed_in(site, "root")


def row(answer: Answer, name: str) -> str:
    found = re.search(rf"<tr>\s*<td>(?:<code[^>]*>)?{name}\b.*?</tr>", answer.text, re.DOTALL)
    assert found is not None, name
    return " ".join(re.sub(r"<[^>]*>", " ", found[0]).split())


def test_what_is_in_force_says_where_it_comes_from(site: PagesUnderTest, root: Browser) -> None:
    page = root.get("/settings")
    assert row(page, "timeout").startswith("timeout 77 s environment SUPERVISOR_TIMEOUT 60")
    assert row(page, "workers").split()[2] == "default"
    assert "canary" not in page.text
    assert "No node has announced a type yet" in page.text


def test_types_are_shown_with_who_knows_them(site: PagesUnderTest, root: Browser) -> None:
    now = site.client.reader.store.clock.now()
    killed = NodeRecord(
        node_id="node_x", node_name="host-of-the-killed", version="0.1.0", started_at=now,
        process=replace(own_identity(), start_ticks=1),
    )  # fmt: skip

    def write(tx: Transaction) -> None:
        tx.register_node(killed)
        tx.record_types({"pay<b>": "money"}, "node_x", now)

    site.client._ledger(create=False).run(write)
    page = root.get("/settings")
    assert row(page, r'<a href="/tasks\?type=pay%3Cb%3E">').endswith("– – none started lately")
    assert "no node that runs" in page.text
    assert killed.node_name not in page.text  # nobody has written down its end


def test_a_viewer_has_language_and_password_alone(site: PagesUnderTest) -> None:
    page = signed_in(site, "vera").get("/settings")
    assert (page.code, page.heading) == (200, "Settings")
    for hidden in ("In force", "Task types", "Users and API tokens", "SUPERVISOR_TIMEOUT"):
        assert hidden not in page.text
    assert "In force" in signed_in(site, "otto").get("/settings").text


def test_a_language_is_chosen_and_kept(site: PagesUnderTest) -> None:
    browser = signed_in(site, "vera")
    token = browser.get("/settings").token()
    assert 'lang="zh-Hans"' in browser.post("/settings/language", token, language="zh_Hans").text
    assert 'lang="zh-Hans"' in browser.get("/tasks").text
    (cookie,) = (one for one in browser.cookies if one.name == "supervisor-language")
    assert (cookie.path, cookie.has_nonstandard_attr("HttpOnly")) == ("/", True)
    assert browser.post("/settings/language", token, language="../x").code == 400
    assert '<html lang="en">' in browser.post("/settings/language", token, language="").text
    assert browser.post("/settings/language", language="zh_Hans").code == 400


def test_ones_own_password_is_changed_with_the_old_one_and_ends_other_sessions(
    site: PagesUnderTest,
) -> None:
    site.add_user("pia")
    here, elsewhere = signed_in(site, "pia"), signed_in(site, "pia")
    token = here.get("/settings").token()

    def change(old: str, new: str, again: str) -> Answer:
        return here.post("/settings/password", token, old=old, new=new, again=again)

    for fields, why in (
        (("wrong", OTHER, OTHER), "The old password is wrong."),
        ((PASSWORD, OTHER, "else"), "The new password was not written the same twice."),
        ((PASSWORD, "short", "short"), "The new password cannot be taken: it has less than"),
    ):
        refused = change(*fields)
        assert (refused.code, refused.flash.startswith(why)) == (422, True), refused.flash
    assert elsewhere.get("/settings").heading == "Settings"
    done = change(PASSWORD, OTHER, OTHER)
    assert (done.heading, done.flash) == (
        "Settings", "Your password is another now; your other sessions have ended.",
    )  # fmt: skip
    assert elsewhere.get("/settings").heading == "Sign in"
    assert site.browser().sign_in("pia").code == 401
    assert site.browser().sign_in("pia", OTHER).heading == "Overview"
    assert ("pia", "password_changed", "pia") in site.notes()
    tokens = here.get("/settings").token()
    codes = [
        here.post("/settings/password", tokens, old="no", new=OTHER, again=OTHER).code
        for _ in range(6)
    ]
    assert codes[-1] == 429


def test_users_are_added_disabled_let_in_again_and_removed(
    site: PagesUnderTest, root: Browser
) -> None:
    token = root.get(HERE).token()

    def post(part: str, **fields: str) -> tuple[int, str]:
        answer = root.post(f"{HERE}/users{part}", token, **fields)
        return answer.code, answer.flash

    new = {"name": "nina", "password": OTHER, "role": "operator", "autopsies": "1"}
    assert post("", **new) == (200, "nina may come in now.")
    assert post("", **new) == (409, "There is a user nina already.")
    assert post("", **{**new, "name": "a b"})[0] == 422
    assert post("", **{**new, "name": "nora", "password": "short"})[0] == 422
    assert post("", **{**new, "name": "nora", "role": "teller"})[0] == 400
    assert row(root.get(HERE), "nina").startswith("nina operator yes")
    nina = site.browser()
    assert nina.sign_in("nina", OTHER).heading == "Overview"
    assert nina.get("/autopsies").code == 200
    assert post("/disable", name="nina") == (200, "nina may come in no more.")
    assert nina.get("/").heading == "Sign in"
    assert site.browser().sign_in("nina", OTHER).code == 401
    assert row(root.get(HERE), "nina").startswith("nina disabled operator")
    assert post("/password", name="nina", password=PASSWORD)[0] == 200
    assert site.browser().sign_in("nina").heading == "Overview"
    assert post("/remove", name="nina") == (200, "nina is removed.")
    assert post("/remove", name="nina")[0] == 409
    assert site.browser().sign_in("nina").code == 401
    for part in ("/disable", "/remove"):
        assert post(part, name="root") == (409, "You cannot take the way in from yourself.")
    notes = [(by, reason, note) for by, reason, note in site.notes() if note and "nina" in note]
    assert [reason for _by, reason, _note in notes if _by == "root"] == [
        "user_added", "user_disabled", "password_changed", "user_removed",
    ]  # fmt: skip


def test_a_token_is_shown_once_and_ends_when_revoked(site: PagesUnderTest, root: Browser) -> None:
    page = root.get(HERE)
    made = root.post(f"{HERE}/tokens", page.token(), name="ci", role="viewer", days="30")
    (token,) = re.findall(r"<pre tabindex=\"0\">(svt_[\w-]+)</pre>", made.text)
    assert made.headers["Cache-Control"] == "no-store"
    assert token not in root.get(HERE).text
    asking = site.browser(Authorization=f"Bearer {token}")
    assert asking.get("/api/v1/tasks").code == 200
    again = root.post(f"{HERE}/tokens", page.token(), name="ci", role="viewer", days="")
    assert (again.code, again.flash) == (409, "There is a token ci already.")
    for wrong in ("0", "-1", "9999", "x", "٣"):
        fields = {"name": "cd", "role": "viewer", "days": wrong}
        assert root.post(f"{HERE}/tokens", page.token(), **fields).code == 422, wrong
    done = root.post(f"{HERE}/tokens/revoke", page.token(), name="ci")
    assert done.flash == "The token ci is revoked."
    assert asking.get("/api/v1/tasks").code == 401
    assert root.post(f"{HERE}/tokens/revoke", page.token(), name="ci").code == 409


@pytest.mark.parametrize("name", ["vera", "otto"])
def test_only_admins_say_who_may_come_in(site: PagesUnderTest, root: Browser, name: str) -> None:
    browser = signed_in(site, name)
    assert browser.get(HERE).code == 403
    token = browser.get("/settings").token()
    for path in ("users", "users/password", "users/disable", "users/remove", "tokens"):
        fields = {"name": "eve", "password": OTHER, "role": "admin"}
        assert browser.post(f"{HERE}/{path}", token, **fields).code == 403
        assert root.post(f"{HERE}/{path}", **fields).code == 400  # without its token
    assert site.client.access.user("eve") is None


def test_the_first_user_ends_the_printed_link(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pages(tmp_path_factory.mktemp("link")) as made:
        browser = made.opened()
        page = browser.get("/settings")
        assert "You came in without a password" in page.text
        assert browser.post("/settings/password", page.token(), old="x").code == 400
        fields = {"name": "first", "password": OTHER, "role": "admin"}
        browser.post(f"{HERE}/users", page.token(), **fields)
        assert browser.get("/").heading == "Sign in"
        assert browser.sign_in("first", OTHER).heading == "Overview"
