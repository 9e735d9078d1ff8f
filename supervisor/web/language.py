"""The languages that the pages speak, and which of them somebody is answered in.

Secret kept here: where the catalogues lie (translations/, made by tools/translations.py), and how
what a browser likes is matched. Sentences of `supervisor.words` are said in the same language.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType

from flask import Flask, Response, current_app, g, request
from flask_babel import Babel, gettext

from supervisor.words.tongue import spoken

#: By their codes, each named in itself; the first is for who asks for none of them.
LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "zh_Hans": "简体中文"})
#: Says which one somebody has chosen; it outlives the session.
COOKIE = "supervisor-language"
KEPT_S = 365 * 86_400


def add_to(app: Flask) -> None:
    """Let this app's pages speak them."""
    Babel(app, locale_selector=language)
    app.before_request(_begin)
    app.teardown_request(_end)


def language() -> str:
    """Return the language that was chosen, or that the browser likes best of those there are."""
    if (chosen := request.cookies.get(COOKIE, "")) in LANGUAGES:
        return chosen
    liked = (_known(code) for code, _ in request.accept_languages if code != "*")
    return next(filter(None, liked), next(iter(LANGUAGES)))


def remember(answer: Response, chosen: str) -> None:
    """Let a browser say from now on that somebody wants this language; '' is no more of it."""
    path = current_app.session_interface.get_cookie_path(current_app)
    if not chosen:
        answer.delete_cookie(COOKIE, path=path)
        return
    answer.set_cookie(
        COOKIE, chosen, max_age=KEPT_S, path=path, secure=request.is_secure,
        httponly=True, samesite="Lax",
    )  # fmt: skip


def _known(code: str) -> str | None:
    """Return ours for what a browser calls it: zh-CN and zh-Hans-SG are zh_Hans."""
    if code.lower().startswith(("zh-tw", "zh-hk", "zh-mo", "zh-hant")):
        return None  # written otherwise
    first = code.lower().partition("-")[0]
    return next((ours for ours in LANGUAGES if ours.partition("_")[0] == first), None)


def _begin() -> None:
    g.speech = ExitStack()
    g.speech.enter_context(spoken(gettext))


def _end(_: BaseException | None) -> None:
    speech: ExitStack | None = g.pop("speech", None)
    if speech is not None:
        speech.close()
