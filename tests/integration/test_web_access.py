"""Who gets into the pages: the printed link, passwords, tokens, roles; and who does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PASSWORD, Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.web.secret import hash_password


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    """Pages with a user of each kind and one task."""
    with pages(tmp_path_factory.mktemp("pages")) as made:
        made.add_user("vera")
        made.add_user("olga", Role.OPERATOR)
        made.add_user("anna", Role.ADMIN, autopsies=True)
        made.app.submit({"type": "greet", "params": {}})
        made.add_autopsy(None)
        yield made


def signed_in(site: PagesUnderTest, name: str) -> Browser:
    browser = site.browser()
    assert browser.sign_in(name).heading == "Overview"
    return browser


def only_task(site: PagesUnderTest) -> str:
    (task,) = site.client.reader.tasks().tasks
    return task.task_id


def test_the_link_is_the_way_in_until_there_are_users(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        stranger = site.browser()
        asked = stranger.get("/tasks?state=FAILED")
        assert (asked.code, asked.path) == (200, "sign-in?next=/tasks%3Fstate%3DFAILED")
        wrong = stranger.get("/sign-in?token=wrong")
        assert wrong.heading == "Sign in"
        by_hand = stranger.post(
            "/sign-in", wrong.token(), token=site.said["link"].split("=")[1],
            next="/tasks?state=FAILED",
        )  # fmt: skip
        assert (by_hand.heading, by_hand.path) == ("Tasks", "tasks?state=FAILED")
        owner = site.opened()
        wrong_link = "no link that was printed last: GET /sign-in from 127.0.0.1"
        assert [note[1:] for note in site.notes()] == [
            ("request_refused", wrong_link),
            *[("signed_in", "by the printed link")] * 2,
        ]
        site.add_user("vera")
        assert owner.get("/").heading == "Sign in"
        late = site.browser().get(site.said["link"])
        assert (late.heading, "There are users now" in late.text) == ("Sign in", True)
        assert site.stop() == 0


def test_the_cookie_is_not_for_scripts_nor_for_other_sites(site: PagesUnderTest) -> None:
    browser = site.browser()
    header = browser.get("/sign-in").headers["Set-Cookie"]
    assert "HttpOnly" in header
    assert "SameSite=Lax" in header
    assert "Path=/" in header
    assert "Secure" not in header


def test_name_and_password_let_in_and_signing_out_ends_it_everywhere(site: PagesUnderTest) -> None:
    browser = signed_in(site, "vera")
    copied = site.browser()
    for cookie in browser.cookies:
        copied.cookies.set_cookie(cookie)
    assert copied.get("/tasks").heading == "Tasks"
    before = site.browser()
    token = before.get("/sign-in").token()
    assert before.post("/sign-in", token, name="vera", password="wrong word").code == 401
    assert before.post("/sign-in", token, name="nobody", password=PASSWORD).code == 401
    gone = browser.post("/sign-out", browser.get("/").token())
    assert gone.heading == "Sign in"
    assert copied.get("/tasks").heading == "Sign in"
    told = [note for note in site.notes() if note[1].startswith("sign")]
    assert told[-4:] == [
        ("vera", "signed_in", "from 127.0.0.1"),
        ("unknown", "sign_in_refused", "as vera, from 127.0.0.1"),
        ("unknown", "sign_in_refused", "from 127.0.0.1"),
        ("vera", "signed_out", None),
    ]


def test_a_form_of_another_site_does_nothing(site: PagesUnderTest) -> None:
    task_id = only_task(site)
    olga, other = signed_in(site, "olga"), signed_in(site, "olga")
    stolen = other.get(f"/tasks/{task_id}").token()
    for token in (None, "", stolen):
        refused = olga.post(f"/tasks/{task_id}/cancel", token, reason="mine")
        assert refused.code == 400
    assert site.browser().post("/sign-in", None, name="olga", password=PASSWORD).code == 400
    assert site.client.view(task_id).state == "PENDING"


def test_each_role_gets_what_is_its_own(site: PagesUnderTest) -> None:
    task_id = only_task(site)
    vera, olga, anna = (signed_in(site, name) for name in ("vera", "olga", "anna"))
    page = vera.get(f"/tasks/{task_id}")
    assert "<button formaction" not in page.text
    assert vera.post(f"/tasks/{task_id}/cancel", page.token(), reason="mine").code == 403
    for path in ("", "/latest", "/evidence-1", "/evidence-1/report", "/evidence-1/bundle"):
        assert vera.get(f"/autopsies{path}").code == 403
        assert olga.get(f"/autopsies{path}").code == 403
    assert 'href="/autopsies"' not in olga.get("/").text
    assert anna.get("/autopsies/evidence-1").heading == "deadlock.in_process"
    assert site.client.view(task_id).state == "PENDING"
    assert olga.post(f"/tasks/{task_id}/frobnicate", page.token(), reason="x").code == 400


def test_a_token_acts_under_its_name_and_needs_no_form(site: PagesUnderTest) -> None:
    task_id = site.app.submit({"type": "greet", "params": {}}).task_id
    ci = site.browser(Authorization=f"Bearer {site.add_token('ci', Role.OPERATOR)}")
    dash = site.browser(Authorization=f"Bearer {site.add_token('dash')}")
    assert dash.get(f"/tasks/{task_id}").heading == "greet PENDING"
    assert dash.post(f"/tasks/{task_id}/cancel", reason="no").code == 403
    assert ci.get("/autopsies").code == 403
    assert ci.post(f"/tasks/{task_id}/cancel", reason="wrong month").code == 200
    end = site.client.history(task_id)[-1]
    assert (end.operator, end.to_state, end.note) == ("token:ci", "CANCELED", "wrong month")
    site.client.change_access(lambda access, now: access.revoke_token("ci", "tester", now))
    revoked = ci.get("/tasks")
    assert (revoked.code, revoked.text) == (401, "This API token is not known here.\n")
    assert revoked.headers["WWW-Authenticate"] == "Bearer"
    for wrong in ("Bearer", "Bearer ", "Bearer x", "Basic dmVyYTp4", "Digest a=b"):
        assert site.browser(Authorization=wrong).get("/tasks").code == 401


def test_another_password_and_removal_end_sessions_at_once(site: PagesUnderTest) -> None:
    site.add_user("temp")
    browser = signed_in(site, "temp")
    hashed = hash_password("another word 12")
    site.client.change_access(lambda access, now: access.change_password("temp", hashed, "t", now))
    assert browser.get("/").heading == "Sign in"
    assert browser.sign_in("temp", "another word 12").heading == "Overview"
    site.client.change_access(lambda access, now: access.remove_user("temp", "tester", now))
    assert browser.get("/").heading == "Sign in"
    assert browser.sign_in("temp", "another word 12").code == 401


def test_guessing_is_slowed_down(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        site.add_user("vera")
        browser = site.browser()
        codes = [browser.sign_in("vera", "wrong word").code for _ in range(6)]
        assert codes == [401] * 5 + [429]
        slowed = browser.sign_in("vera")
        assert (slowed.code, slowed.heading) == (429, "Sign in")
        assert 200 < int(slowed.headers["Retry-After"]) <= 300
        (_added, *told) = [note[1] for note in site.notes()]
        assert told == ["sign_in_refused"] * 5 + ["request_refused"] * 2


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_it_does_not_listen_wider_without_users(tmp_path: Path, listen: str) -> None:
    with pages(tmp_path, start=False, web_listen=listen) as site:
        refused = site.cli("web")
        assert refused.returncode == 1
        assert refused.stderr == (
            f"error: {listen} is beyond this host, and no user exists: whoever reaches it would be "
            "let in or nobody could\nremedy: Add one with `supervisor users add NAME --role admin`,"
            " or listen on 127.0.0.1.\n"
        )
        if listen.startswith("0"):
            site.add_user("vera")
            site.start()
            assert site.said["link"] is None
            assert site.browser().sign_in("vera").heading == "Overview"


def test_users_and_tokens_on_the_command_line(tmp_path: Path) -> None:
    with pages(tmp_path, start=False) as site:
        site.add_user("anna", Role.ADMIN, autopsies=True)
        token = json.loads(site.cli("tokens", "create", "ci", "--days", "3", "--json").stdout)[
            "token"
        ]
        added = site.cli("users", "add", "eve", "--password-file", "-", given=f"{PASSWORD}\n")
        assert added.stdout == "eve: added\n"
        twice = site.cli("users", "add", "anna", "--password-file", "-", given=f"{PASSWORD}\n")
        assert (twice.returncode, twice.stderr.splitlines()[0]) == (
            1, "error: there is a user anna already",
        )  # fmt: skip
        short = site.cli("users", "passwd", "eve", "--password-file", "-", given="short\n")
        assert short.stderr.startswith("error: the password cannot be taken: it has less than 10")
        assert "no terminal" in site.cli("users", "passwd", "eve").stderr
        disabled = site.cli("users", "disable", "eve")
        assert disabled.stdout == "eve: disabled until `supervisor users passwd`\n"
        assert site.cli("users", "disable", "nobody").returncode != 0
        assert site.cli("users", "remove", "../eve").returncode == 2
        assert site.cli("users", "remove", "eve").stdout == "eve: removed\n"
        assert site.cli("tokens", "revoke", "eve").stderr == (
            "error: no token is called eve\n"
            "remedy: `supervisor tokens list` shows which there are.\n"
        )
        listed = site.cli("users", "list", "--json").stdout + site.cli("tokens", "list").stdout
        assert '"name": "anna", "role": "admin", "sees_autopsies": true' in listed
        assert re.search(r"^ci +viewer +no +2", listed, re.MULTILINE)
        kept = b"".join(path.read_bytes() for path in tmp_path.glob("tasks.db*"))
        for secret in (PASSWORD, token):
            assert secret not in listed
            assert secret.encode() not in kept
        assert [note[1:] for note in site.notes()][-4:] == [
            ("token_created", site.notes()[1][2]), ("user_added", "eve, viewer, sees no autopsies"),
            ("user_disabled", "eve"), ("user_removed", "eve"),
        ]  # fmt: skip
