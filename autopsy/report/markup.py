"""HTML that cannot be forgotten to be escaped: text becomes markup only through `element`.

Secret: what is made harmless and how it still shows. Besides the five characters of HTML: control
characters, marks that turn the direction of writing, and lone surrogates. Pure; called by `html`
and `svg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_VOID = frozenset({"meta", "br", "hr", "rect", "line", "path", "circle", "polyline"})
# Marks of direction can show a line in another order than it has; a reader would not notice.
_DIRECTION = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_KEPT_CONTROLS = (0x09, 0x0A)
# Longer than any line a person reads; a log line can have a megabyte.
MAX_TEXT = 4000


def _visible() -> Mapping[int, str]:
    table = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
    table |= {code: f"\\u{code:04x}" for code in (*_DIRECTION, 0x2028, 0x2029)}
    for code in _KEPT_CONTROLS:
        del table[code]
    return MappingProxyType(table)


_VISIBLE = _visible()
_ESCAPED = MappingProxyType(
    {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#39;"}
)


class Markup(str):
    """Text that is HTML already; only this module makes it from anything that is not."""

    __slots__ = ()


Child = str | Iterable["Child"] | None


def plain(text: str, limit: int = MAX_TEXT) -> str:
    """Return text without anything that could act: visible controls, no surrogates, not endless."""
    if len(text) > limit:
        text = f"{text[:limit]} [cut {len(text) - limit} characters]"
    return text.encode("utf-8", "replace").decode().translate(_VISIBLE)


def escaped(text: str) -> Markup:
    """Return any text as harmless HTML; markup passes as it is."""
    return text if isinstance(text, Markup) else Markup(plain(text).translate(_ESCAPED))


def element(tag: str, *children: Child, **attributes: str | float | None) -> Markup:
    """Return one element. `class_` is class, `_` in other names is `-`; None leaves one out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID and not children:
        return Markup(f"<{tag}{given}>" if tag in ("meta", "br", "hr") else f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return children one after the other, escaped where they are not markup."""
    return Markup("".join(_flat(children)))


def constant(text: str) -> Markup:
    """Return a text of this package (a style sheet) as markup; never one that was collected."""
    return Markup(text)


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield escaped(child)
        else:
            yield from _flat(child)
