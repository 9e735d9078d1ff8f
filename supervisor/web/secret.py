"""Passwords and tokens: how they are made, and what of them is kept.

Secret kept here: the way of hashing. Invariant: neither can be had back from what the store keeps.
A password is hashed slowly, since people choose it; a token is 256 bits of chance, for which a fast
hash will do. The command line makes them, the door compares them.
"""

from __future__ import annotations

import hashlib
import secrets

from werkzeug.security import check_password_hash, generate_password_hash

PASSWORD_MIN, PASSWORD_MAX = 10, 200
#: A token is told from other secrets by this, in logs and by scanners of repositories.
TOKEN_PREFIX = "svt_"  # noqa: S105 - it is no secret itself
_METHOD = "scrypt:32768:8:1"
#: What is kept for who may not come in: a hash that no password has, as slow to compare as others.
NOBODY = (
    f"{_METHOD}$cSjJqQ4uJw4Gzqtb$"
    "0f4c1d6b8a2e5937c1f0a6d2b3948e7fa5c6d7e8f90123456789abcdef012345"
    "6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef012345"
)


def hash_password(password: str) -> str:
    """Return what the store keeps of a password."""
    return generate_password_hash(password, method=_METHOD)


def is_password(kept: str, given: str) -> bool:
    """Compare in a time that says nothing; it takes about 50 ms."""
    return len(given) <= PASSWORD_MAX and check_password_hash(kept, given)


def bad_password(password: str) -> str:
    """Say what is wrong with a new password, or return ''."""
    if len(password) < PASSWORD_MIN:
        return f"it has less than {PASSWORD_MIN} characters"
    if len(password) > PASSWORD_MAX:
        return f"it has more than {PASSWORD_MAX} characters"
    return ""


def new_token() -> str:
    """Return a token that nobody can guess."""
    return TOKEN_PREFIX + new_key()


def new_link() -> str:
    """Return 128 bits of chance: short enough for a line, and it dies with its process."""
    return secrets.token_urlsafe(16)


def new_key() -> str:
    """Return 256 bits of chance as text."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return what the store keeps of a token or a session's key."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Compare two secrets in a time that says nothing."""
    return secrets.compare_digest(one.encode(), other.encode())
