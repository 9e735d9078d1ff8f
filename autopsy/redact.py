"""Removing secrets before anything reaches a disk or a terminal.

Secret: what looks like one. By name first (a key, an option, a header), then by the shape of the
value. The environment goes through an allow-list only. Called by collectors and the bundle writer;
values that are known to be secret are in `secret`. Invariant: linear in the length of a text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any

MARK = "[redacted]"
VERSION = 3
_NAME_WORDS = frozenset(
    {
        "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "pass", "secret",
        "secrets", "token", "tokens", "auth", "authorization", "credential", "credentials", "cred",
        "creds", "cookie", "cookies", "bearer", "jwt", "dsn", "conninfo", "apikey", "sessionid",
        "signature", "otp", "pin", "cvv", "cvc", "ssn", "iban", "passin", "passout", "pgpassword",
        "authtoken", "accesstoken", "clientsecret", "privatekey", "requirepass", "masterauth",
        "pw", "passwort", "kennwort",
    }
)  # fmt: skip
_NAME_PAIRS = frozenset(
    {
        ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"),
        ("session", "key"), ("encryption", "key"), ("signing", "key"), ("account", "key"),
        ("database", "url"), ("db", "url"), ("redis", "url"), ("broker", "url"),
        ("connection", "string"), ("card", "number"), ("master", "key"), ("shared", "key"),
    }
)  # fmt: skip
# Words that end like `dbpass` and mean something else.
_NO_PASS = frozenset({"bypass", "compass", "encompass", "surpass", "trespass", "overpass"})
# Of a variable that is called a key, what says that it is none of those that open something.
_OPEN_KEYS = frozenset(
    {"public", "primary", "foreign", "cache", "partition", "routing", "sort", "dedup", "lock"}
)
_ENVIRONMENT_KEPT = re.compile(
    r"PATH|LANG|LC_[A-Z]+|TZ|TERM|SHELL|USER|LOGNAME|PWD|HOSTNAME|VIRTUAL_ENV|TMPDIR"
    r"|PYTHON(PATH|HOME|UNBUFFERED|HASHSEED|DEVMODE|FAULTHANDLER|OPTIMIZE|WARNINGS|UTF8|MALLOC"
    r"|ASYNCIODEBUG|DONTWRITEBYTECODE|IOENCODING)"
    r"|(OMP|MKL|OPENBLAS)_NUM_THREADS|MALLOC_[A-Z_]+|LD_PRELOAD|LD_LIBRARY_PATH"
)
#: Programs whose one-letter option is a secret, and whether it may be an argument of its own.
_SHORT_OPTIONS = MappingProxyType(
    {
        "mysql": ("-p", False), "mysqldump": ("-p", False), "mysqladmin": ("-p", False),
        "mariadb": ("-p", False), "mariadb-dump": ("-p", False),
        "redis-cli": ("-a", True), "sshpass": ("-p", True), "curl": ("-u", True),
        "mongosh": ("-p", True), "mongodump": ("-p", True), "sqlcmd": ("-P", True),
        "mongo": ("-p", True), "zip": ("-P", True), "unzip": ("-P", True), "7z": ("-p", False),
        "mosquitto_pub": ("-P", True), "mosquitto_sub": ("-P", True),
        "ldapsearch": ("-w", True), "smbclient": ("-U", True), "wget": ("--http-passwd", True),
    }
)  # fmt: skip
# The long forms of curl's.
_USER_OPTIONS = ("--user", "--proxy-user")
# A program may be started by another: sudo, env, timeout 10.
_MAX_BEFORE_PROGRAM = 6
# These end longer names too (dbPassword, CLIENT_SECRET); no prefix is matched, that would be
# quadratic on a long run of letters.
_LONG = (
    r"passwords?|passwd|passphrases?|passcode|secrets?|tokens?|api[_-]?keys?"
    r"|(?:access|private|secret|session|account|signing|encryption|master)[_-]?key"
    r"|session[_-]?id|authorization|credentials?|cookies?|signature|conninfo|requirepass"
    r"|[_-]pass|dbpass|userpass|(?-i:[A-Z]PASS)|[_-]pw|passwort|kennwort|(?-i:_KEY)"
)
# These are the end of many a harmless word.
_SHORT = r"(?<![A-Za-z0-9])(?:auth|pwd|pw|sig|dsn|jwt|otp|iban)"
# And these mean something else when a sentence goes on after a colon.
_CURT = r"(?<![A-Za-z0-9])(?:pin|pass|cvv|cvc|ssn)"
_QUOTE = r"\\{0,3}[\"']"
_TO = rf"(?:{_QUOTE})?\s{{0,9}}(?:=>|=(?!>)|:)\s{{0,9}}"
# Headers and pairs as Python shows them: ('X-Api-Key', 'value').
_PAIRED = rf"{_QUOTE}\s{{0,9}},\s{{0,9}}(?=[bBrRuUfF]{{0,2}}{_QUOTE})"
_VALUE = (
    r"(?!\[redacted\])(?:"  # the mark itself is left alone: redacting twice changes nothing
    # A quote that a word follows opens another text: the value's own end was cut off.
    r"[bBrRuUfF]{0,2}(?:\"{3}(?:(?!\"{3})[^\n])*\"{3}|'{3}(?:(?!'{3})[^\n])*'{3}"
    r"|\"(?:[^\"\\]|\\.)*\"(?!\w)|'(?:[^'\\]|\\.)*'(?!\w)|[\"'][^\n]*)"
    r"|\\{1,3}\"(?:[^\"\\]|\\[^\"])*\\{1,3}\"|\\{1,3}'(?:[^'\\]|\\[^'])*\\{1,3}'"
    r"|\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)"
    r"|[^\s\"',;&)}\]]+(?:[,;&)}\]](?!\w{0,40}\s?[=:])[^\s\"',;&)}\]]+)*)"
)
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]*")
_USERINFO = re.compile(
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)([^/\s:@\"']{0,200}):"
    r"(?:[^\s\"'?#]{1,500}|[^\s\"'/]{1,200})@",
    re.IGNORECASE,
)
_USER_TOKEN = re.compile(r"(://)(?!\[redacted\])[^/\s:@\"'?#]{20,500}@")
_BEARER = re.compile(r"\b(bearer|basic|digest)(\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|x-[a-z0-9-]{0,20}(?:key|token)|set-cookie|cookie)"
    r"([\"']?\s{0,9}:\s{0,9})([^\r\n]+)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    rf"((?:(?:{_LONG}|{_SHORT})(?:[_-]?\d{{1,3}}|[_-]value)?(?:{_TO}|{_PAIRED})"
    rf"|{_CURT}(?:{_QUOTE}\s{{0,9}}[:=]|\s{{0,9}}=(?!=))\s{{0,9}}|{_CURT}{_PAIRED}))({_VALUE})",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"((?<![\w-])--?(?:[A-Za-z0-9]{{1,30}}[-_]){{0,4}}(?:{_LONG}|auth|pwd|pin|otp)[ ]{{1,4}})"
    r"(?!-|\[redacted\])(\"[^\"]*\"|'[^']*'|[^\s\"']+)",
    re.IGNORECASE,
)
_SQL = re.compile(
    r"(\b(?:IDENTIFIED\s{1,9}(?:WITH\s{1,9}\S{1,40}\s{1,9})?BY|PASSWO?R?D)\s{1,9}E?)"
    r"('(?:[^']|'')*'?|\"[^\"]*\"?)",
    re.IGNORECASE,
)
_MYSQL = re.compile(r"(\b(?:mysql|mariadb)[a-z-]{0,12}\s[^|;&\n]{0,300}?(?<=\s)-p)([^\s|;&-]\S*)")
_PROGRAM = re.compile(
    r"(\b(?:curl\s[^|;&\n]{0,300}?(?<=\s)(?:-u|--user|--proxy-user)"
    r"|(?:redis|valkey)-cli\s[^|;&\n]{0,300}?(?<=\s)-a|sshpass\s[^|;&\n]{0,100}?(?<=\s)-p)"
    r"[\s=]{0,4})(?!\[redacted\])(\"[^\"]*\"|'[^']*'|[^\s|;&\"']+)"
)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?")
_KNOWN_KEYS = re.compile(
    r"\b(?:(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{16,}|AIza[0-9A-Za-z_-]{35}"
    r"|glpat-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|hf_[A-Za-z0-9]{30,}|hvs\.[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{40,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|xapp-[A-Za-z0-9-]{10,}"
    r"|shp(?:at|ca|pa|ss)_[A-Za-z0-9]{20,}|gls[ac]_[A-Za-z0-9_]{20,}|lin_api_[A-Za-z0-9]{20,}"
    r"|ATATT3[A-Za-z0-9_=-]{20,}|AGE-SECRET-KEY-1[0-9A-Za-z]{20,}|PMAK-[A-Za-z0-9-]{20,}"
    r"|sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32})"
)
_WEBHOOK = re.compile(r"(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)\S+")
_TELEGRAM = re.compile(r"(?<!\d)(\d{8,10}:)AA[A-Za-z0-9_-]{30,}")
_CARD = re.compile(r"(?<![\w.])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w.])")
# One look that decides whether a string can match anything above: most cannot.
_WORTH_A_LOOK = re.compile(
    r"pass|secret|token|key|auth|credential|cookie|sig|dsn|conninfo|session|jwt|otp|iban|pwd|pin"
    r"|cvv|cvc|ssn|identified|bearer|basic|digest|://|PRIVATE|eyJ|AKIA|ASIA|AROA|AIDA|gh[pousr]_"
    r"|github_|xox|sk[-_]|rk_|whsec|AIza|glpat|npm_|pypi-|hf_|hvs\.|dop_|ya29|SG\.|hooks"
    r"|mysql|mariadb|webhooks|pw|kennwort|curl|-cli|xapp|shp[acs]|gls[ac]_|lin_|ATATT|PMAK|sq0|dapi"
    r"|:AA|[2-6]\d{3}[ -]?\d",
    re.IGNORECASE,
)


def text(value: str) -> str:
    """Return the text with everything that has the shape of a secret replaced by the mark."""
    if not _WORTH_A_LOOK.search(value):
        return value
    value = _without_ends_of_keys(_PEM.sub(MARK, value))
    value = _USERINFO.sub(rf"\1\2:{MARK}@", value)
    value = _USER_TOKEN.sub(rf"\1{MARK}@", value)
    value = _HEADER.sub(rf"\1\2{MARK}", value)
    value = _BEARER.sub(rf"\1\2{MARK}", value)
    for named in (_ASSIGNED, _OPTION, _SQL, _MYSQL, _PROGRAM, _WEBHOOK, _TELEGRAM):
        value = named.sub(rf"\1{MARK}", value)
    value = _JWT.sub(MARK, value)
    value = _KNOWN_KEYS.sub(MARK, value)
    return _CARD.sub(lambda match: MARK if _is_card(match[0]) else match[0], value)


def looks_secret(name: str) -> bool:
    """Return whether a key, option or variable of this name probably holds a secret."""
    words = name_words(name)
    if not _NAME_WORDS.isdisjoint(words):
        return True
    if any(word.endswith("pass") and word not in _NO_PASS for word in words):
        return True
    return any(pair in _NAME_PAIRS for pair in itertools.pairwise(words))


def is_secret_itself(name: str) -> bool:
    """Return whether the value under this name is the secret, not something about one.

    COOKIE_DOMAIN and TOKEN_URL only tell of secrets; API_KEY, TOKEN_2 and SECRET_KEY_BASE are.
    """
    words = name_words(name)
    while words and (words[-1].isdigit() or words[-1] in ("value", "base", "raw")):
        words.pop()
    if not words:
        return False
    if words[-1] == "key":  # a variable is hardly ever about one that everybody may know
        return len(words) > 1 and words[-2] not in _OPEN_KEYS
    return looks_secret(words[-1]) or tuple(words[-2:]) in _NAME_PAIRS


def name_words(name: str) -> list[str]:
    """Return the words of a name in snake_case, kebab-case or camelCase, in lower case."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word for word in re.split(r"[^A-Za-z0-9]+", parts.lower()) if word]


def tree(value: Any, clean: Callable[[str], str] = text) -> Any:
    """Return JSON data with every secret-looking entry and string redacted; keys stay.

    `clean` is what is done to each string, once for each different one.
    """
    return _Cleaning(clean).of(value)


def arguments(argv: Sequence[str]) -> list[str]:
    """Return a command line whose secret options, joined or separate, lost their values."""
    names = (one.rpartition("/")[2] for one in argv[:_MAX_BEFORE_PROGRAM])
    known = (_SHORT_OPTIONS[one] for one in names if one in _SHORT_OPTIONS)
    short, is_apart = next(known, ("", False))
    kept: list[str] = []
    hide_next = False
    for argument in argv:
        is_option = argument.startswith("-")
        if hide_next and not is_option:
            kept.append(MARK)
        elif short and argument.startswith(short) and argument != short:
            kept.append(f"{short}{MARK}")
        else:
            kept.append(text(argument))
        is_secret = looks_secret(argument) or (is_apart and argument == short)
        is_secret = is_secret or (short == "-u" and argument in _USER_OPTIONS)
        hide_next = is_option and "=" not in argument and is_secret
    return kept


def environment(block: str) -> dict[str, str]:
    """Return the allowed variables of a NUL-separated environment block, values redacted."""
    return {name: text(value) for name, value in variables(block) if is_kept(name)}


def variables(block: str) -> Iterable[tuple[str, str]]:
    """Yield name and value of each variable of a NUL-separated environment block."""
    for entry in block.split("\0"):
        name, _, value = entry.partition("=")
        yield name, value


def is_kept(name: str) -> bool:
    """Return whether a variable of the environment is shown."""
    return _ENVIRONMENT_KEPT.fullmatch(name) is not None


def _without_ends_of_keys(value: str) -> str:
    """Remove private keys whose beginning was cut off: the lines before their end."""
    *before, rest = _PEM_END.split(value)
    return "".join(f"{_without_last_key_lines(one)}{MARK}" for one in before) + rest


def _without_last_key_lines(value: str) -> str:
    lines = value.split("\n")
    if not _PEM_LINE.fullmatch(lines[-1].strip()):
        return value
    lines.pop()  # what is in the line of the end itself
    least = 1  # the last line of a key is short; the others are full
    while lines and len(lines[-1]) >= least and _PEM_LINE.fullmatch(lines[-1].strip()):
        lines.pop()
        least = 16
    return "\n".join([*lines, ""])


class _Cleaning:
    """One walk through JSON data, which says the same things a thousand times."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._texts: dict[str, str] = {}
        self._names: dict[str, bool] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {
                key: _hidden(entry) if self._is_secret(key) else self.of(entry)
                for key, entry in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.of(entry) for entry in value]
        return value

    def _text(self, value: str) -> str:
        found = self._texts.get(value)
        if found is None:
            found = self._texts[value] = self._clean(value)
        return found

    def _is_secret(self, key: Any) -> bool:
        name = str(key)
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = looks_secret(name)
        return found


def _hidden(value: Any) -> Any:
    """Whether a secret is set at all is worth keeping; what it is, is not."""
    return value if value is None or isinstance(value, bool) else MARK


def _is_card(digits: str) -> bool:
    """The Luhn check: without it every long number would look like a card."""
    numbers = [int(digit) for digit in digits if digit.isdigit()][::-1]
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
