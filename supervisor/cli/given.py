"""Kinds of values that options of the monitoring commands take, checked where they are given.

Secret kept here: what makes an address good for a link. click names the option in its refusal.
"""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import urlsplit

import click

_NO_PART_OF_A_LINK = re.compile(r"[\s\x00-\x1f\x7f\"'<>\\^`{|}]")


class Address(click.ParamType[str]):
    """A base of links or a web hook: http or https, with a host; a slash at its end is cut off."""

    name = "address"

    def __init__(self, *, is_base: bool) -> None:
        self.is_base = is_base

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address."""
        text = str(value)
        if why := _wrong(text, is_base=self.is_base):
            self.fail(f"{text!r}: {why}", param, ctx)
        return text.rstrip("/") if self.is_base else text


class Limit(click.ParamType[tuple[str, float]]):
    """NAME=NUMBER, the number finite and above 0."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return name and number."""
        name, number = _pair(self, value, param, ctx)
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not (math.isfinite(limit) and limit > 0):
            self.fail(f"{name}: {number!r} is no number above 0", param, ctx)
        return name, limit


class Hook(click.ParamType[tuple[str, str]]):
    """NAME=URL of a web hook."""

    name = "hook"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return name and address."""
        name, address = _pair(self, value, param, ctx)
        if why := _wrong(address, is_base=False):
            self.fail(f"{name}: {address!r}: {why}", param, ctx)
        return name, address


def _pair(
    kind: click.ParamType[Any], value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> tuple[str, str]:
    name, equals, rest = str(value).partition("=")
    if not (equals and name and rest):
        kind.fail(
            f"{value!r} is not NAME={'NUMBER' if kind.name == 'limit' else 'URL'}", param, ctx
        )
    return name, rest


def _wrong(text: str, *, is_base: bool) -> str:
    """Return why a text is no address; nothing if it is one."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        return f"it is no URL: {exc}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must begin with http:// or https:// and a host"
    if port == 0 or _NO_PART_OF_A_LINK.search(text):
        return "it has a character or a port that no URL has"
    if is_base and ("?" in text or "#" in text):
        return "a path is put behind it, so it may have no ? and no #"
    return ""
