"""Who gets into the API: tokens, sessions, roles; and what is refused is written down, bounded."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from api import Api, Told
from pages import PASSWORD, Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.web.api.me import Language
from supervisor.web.language import LANGUAGES

BODY = {"type": "greet"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("access")) as made:
        made.add_user("olga", Role.OPERATOR)
        made.add_user("vera")
        yield made


def signed_in(site: PagesUnderTest, name: str) -> tuple[Api, Browser]:
    """Return the API with the cookie of somebody signed in, and the browser it is of."""
    browser = site.browser()
    assert browser.sign_in(name).code == 200
    cookie = "; ".join(f"{one.name}={one.value}" for one in browser.cookies)
    return Api(site.base, None, Cookie=cookie), browser


def refusals(site: PagesUnderTest) -> list[tuple[str, str]]:
    return [(who, note or "") for who, why, note in site.notes() if why == "request_refused"]


def test_each_role_may_what_is_its_own(site: PagesUnderTest) -> None:
    task_id = site.app.submit({"type": "greet", "params": {}}).task_id
    by_role = {role: Api(site.base, site.add_token(f"t-{role}", role)) for role in Role}
    asked = {
        "see": lambda api: api.get("/tasks").code,
        "submit": lambda api: api.post("/tasks", **BODY).code,
        "act": lambda api: api.post(f"/tasks/{task_id}/fail", reason="x").code,
        "tell": lambda api: api.post("/alertmanager", alerts=[]).code,
        "evidence": lambda api: api.get("/autopsies").code,
    }
    got = {role: {name: ask(api) for name, ask in asked.items()} for role, api in by_role.items()}
    no = 403
    assert got == {
        Role.VIEWER: {"see": 200, "submit": no, "act": no, "tell": no, "evidence": no},
        Role.OPERATOR: {"see": 200, "submit": 201, "act": 409, "tell": no, "evidence": no},
        Role.ADMIN: {"see": 200, "submit": 201, "act": 409, "tell": 200, "evidence": no},
        Role.SUBMITTER: {"see": 200, "submit": 201, "act": no, "tell": no, "evidence": no},
        Role.TELLER: {"see": no, "submit": no, "act": no, "tell": 200, "evidence": no},
    }
    assert ("token:t-viewer", "no right: POST /api/v1/tasks from 127.0.0.1") in refusals(site)


def test_without_a_token_nothing_but_the_description_is_answered(site: PagesUnderTest) -> None:
    nobody = Api(site.base, None)
    told = nobody.get("/tasks")
    assert (told.code, told.headers["WWW-Authenticate"]) == (401, 'Bearer realm="supervisor"')
    assert nobody.post("/tasks", **BODY).code == 401
    assert nobody.get("/openapi.json").code == 200
    for wrong in ("Bearer", "Bearer x", "Basic dmVyYTp4"):
        assert Api(site.base, None, Authorization=wrong).get("/tasks").code == 401
    token = site.add_token("over")
    revoked = Api(site.base, token)
    assert revoked.get("/tasks").code == 200
    site.client.change_access(lambda access, now: access.revoke_token("over", "tester", now))
    assert revoked.get("/tasks").code == 401


def test_a_session_needs_its_own_token_to_change_anything(site: PagesUnderTest) -> None:
    api, browser = signed_in(site, "olga")
    _, other = signed_in(site, "olga")
    assert api.get("/tasks").code == 200
    task_id = api.get("/tasks").document["tasks"][0]["task_id"]
    path = f"/tasks/{task_id}/cancel"
    data = json.dumps({"reason": "x"}).encode()
    stolen = other.get("/tasks").token()
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": stolen}):
        told = api.ask("POST", path, data, Content_Type="application/json", **headers)
        assert told.code == 403
    assert site.client.view(task_id).state == "PENDING"
    assert ("olga", "from another site: POST /api/v1/tasks/<task_id>/<verb> from 127.0.0.1") in (
        refusals(site)
    )
    own = {"X-CSRF-Token": browser.get("/tasks").token()}
    assert api.ask("POST", path, data, Content_Type="application/json", **own).code == 200
    assert site.client.history(task_id)[-1].operator == "olga"


def test_ones_own_password_and_language_are_changed_by_oneself(site: PagesUnderTest) -> None:
    site.add_user("pia", Role.OPERATOR)
    api, browser = signed_in(site, "pia")
    elsewhere, _ = signed_in(site, "pia")
    me = api.get("/me", Accept_Language="zh-CN").document
    assert me == {
        "name": "pia", "role": "operator", "rights": ["see tasks", "step in", "submit tasks"],
        "language": "zh_Hans", "has_password": True,
    }  # fmt: skip
    own = {"Content_Type": "application/json", "X_CSRF_Token": browser.get("/").token()}

    def post(path: str, **body: object) -> Told:
        return api.ask("POST", path, json.dumps(body).encode(), **own)

    chosen = post("/me/language", language="zh_Hans")
    assert chosen.headers["Set-Cookie"].startswith("supervisor-language=zh_Hans; ")
    assert "Max-Age=0" in post("/me/language", language=None).headers["Set-Cookie"]
    assert list(post("/me/language", language="tlh").fields) == ["language"]
    assert get_args(Language) == tuple(LANGUAGES)

    other = "another long word"
    assert post("/me/password", old="wrong", new=other).code == 422
    assert list(post("/me/password", old=PASSWORD, new="short").fields) == ["new"]
    assert post("/me/password", old=PASSWORD, new=other).document == {"name": "pia"}
    assert elsewhere.get("/me").code == 401
    assert site.browser().sign_in("pia", other).code == 200
    assert ("pia", "password_changed", "pia") in site.notes()
    token = Api(site.base, site.add_token("mine", Role.OPERATOR))
    assert token.get("/me").document["has_password"] is False
    assert token.post("/me/password", old=PASSWORD, new=other).code == 409


def test_guessing_ones_password_is_slowed_down(site: PagesUnderTest) -> None:
    site.add_user("gus")
    api, browser = signed_in(site, "gus")
    own = {"Content_Type": "application/json", "X_CSRF_Token": browser.get("/").token()}
    body = json.dumps({"old": "no", "new": "a very long word"}).encode()
    told = [api.ask("POST", "/me/password", body, **own) for _ in range(6)]
    assert [one.code for one in told] == [422] * 5 + [429]
    assert int(told[-1].headers["Retry-After"]) > 200


def test_who_may_come_in_is_managed_by_who_may_say_so(tmp_path: Path) -> None:
    (tmp_path / "supervisor.toml").write_text("[queue.mail]\ntimeout = 5\n")
    with pages(tmp_path, web_rate="1000") as site:
        admin = Api(site.base, site.add_token("root", Role.ADMIN))
        word = "a long enough word"
        assert admin.post("/users", name="eve", password="short").fields["password"]
        assert admin.post("/users", name="eve", password=word, role="operator").code == 201
        assert admin.post("/users", name="eve", password=word).code == 409
        (eve,) = admin.get("/users").document["users"]
        assert (eve["name"], eve["role"], eve["disabled"]) == ("eve", "operator", False)
        assert word not in json.dumps(eve)
        browser = site.browser()
        assert browser.sign_in("eve", word).code == 200
        assert admin.get("/users/eve/disable", "POST").code == 200
        assert site.browser().sign_in("eve", word).code == 401
        assert admin.post("/users/eve/password", password="another long word").code == 200
        assert site.browser().sign_in("eve", "another long word").code == 200
        assert admin.get("/users/eve", "DELETE").code == 200
        assert admin.get("/users/eve", "DELETE").code == 404
        made = admin.post("/tokens", name="ci", role="submitter", days=3).document
        own = Api(site.base, made["token"])
        assert own.post("/tasks", **BODY).code == 201
        assert own.get("/users").code == own.get("/settings").code == 403
        told = {one["name"]: one["role"] for one in admin.get("/tokens").document["tokens"]}
        assert told == {"ci": "submitter", "root": "admin"}
        assert admin.get("/tokens/ci", "DELETE").code == 200
        assert own.get("/tasks").code == 401
        assert made["token"] not in admin.get("/audit?limit=500").body.decode()
        told = admin.get("/settings").document
        settings = {one["name"]: one["value"] for one in told["settings"]}
        assert settings["web_rate"] == 1000
        assert (told["queues"], told["types"]) == ({"mail": {"timeout": 5.0}}, {})


def test_other_sites_are_told_nothing(site: PagesUnderTest) -> None:
    api = Api(site.base, site.add_token("cors"), Origin="https://evil.example")
    for told in (api.get("/tasks"), api.get("/tasks", "OPTIONS")):
        assert not [name for name in told.headers if name.lower().startswith("access-control-")]
        assert told.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert told.headers["X-Content-Type-Options"] == "nosniff"
        assert told.headers["Cache-Control"] == "no-store"


def test_refusals_are_written_down_and_never_a_flood(tmp_path: Path) -> None:
    with pages(tmp_path, web_rate="10000") as site:
        nobody = Api(site.base, None)
        for _ in range(40):
            assert nobody.get("/tasks").code == 401
        huge = b'{"type": "' + b"x" * 600_000
        operator = Api(site.base, site.add_token("op", Role.OPERATOR))
        assert operator.ask("POST", "/tasks", huge, Content_Type="application/json").code == 413
        browser = site.browser()
        for path in ("/static/..%2f..%2fetc%2fpasswd", "/autopsies/..%2f..%2fx/bundle"):
            assert browser.get(path).code in (404, 200)
        out = "a path that leads out of its place: GET"
        assert refusals(site) == [
            *[("unknown", "not signed in: GET /api/v1/tasks from 127.0.0.1")] * 5,
            ("token:op", "too large: POST /api/v1/tasks from 127.0.0.1"),
            ("unknown", f"{out} /static/../../etc/passwd from 127.0.0.1"),
            ("unknown", f"{out} /autopsies/../../x/bundle from 127.0.0.1"),
        ]
        assert site.log.read_text().count('"web.refused"') == len(refusals(site))


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    with pages(tmp_path, web_rate="1") as site:
        busy, other = (Api(site.base, site.add_token(name)) for name in ("busy", "other"))
        told = [busy.get("/queues") for _ in range(10)]
        slowed = [one for one in told if one.code == 429]
        assert told[0].code == 200
        assert {one.headers["Retry-After"] for one in slowed} == {"1"}
        assert other.get("/queues").code == 200
        assert {Api(site.base, None).get("/queues").code for _ in range(3)} == {401, 429}


def test_below_a_path_of_a_proxy_links_and_description_have_it(tmp_path: Path) -> None:
    with pages(tmp_path, web_proxies="127.0.0.1") as site:
        headers = {"X-Forwarded-Prefix": "/jobs", "X-Forwarded-Proto": "https"}
        browser = site.browser(**{name.replace("-", "_"): one for name, one in headers.items()})
        served = json.loads(browser.get("/api/v1/openapi.json").text)
        assert served["servers"] == [{"url": "/jobs"}]
        cookie = browser.get("/sign-in").headers["Set-Cookie"]
        assert "Path=/jobs" in cookie
        assert "Secure" in cookie
        api = Api(site.base, site.add_token("far"), **headers)
        assert api.get("/tasks").code == 200


def test_what_is_no_http_is_refused_as_plainly(site: PagesUnderTest) -> None:
    port = int(site.base.rstrip("/").rpartition(":")[2])
    for sent, code in (
        (b"GET /api/v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 300_000 + b"\r\n\r\n", b"431"),
    ):
        with socket.create_connection(("127.0.0.1", port), 10) as line:
            line.sendall(sent)
            answer = line.recv(4000)
            assert code in answer.split(b"\r\n")[0]
            assert b"application/problem+json" in answer
    assert ("unknown", "too large: a request from 127.0.0.1") in refusals(site)


def test_readiness_asks_the_store_and_liveness_does_not(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.browser()
        assert (browser.get("/healthz").code, browser.get("/readyz").code) == (200, 200)
        site.client.close()
        for file in tmp_path.glob("tasks.db*"):
            file.unlink()
        assert (browser.get("/healthz").code, browser.get("/readyz").code) == (200, 503)
        away = Api(site.base, "svt_x").get("/tasks")
        assert (away.code, away.headers["Retry-After"]) == (503, "5")
