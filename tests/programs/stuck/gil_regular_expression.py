"""DIAGNOSIS busy.native_gil: a regular expression tries out all ways to split a long word."""

import re

from _stage import ready

ADDRESS = re.compile(r"^([a-z0-9]+[.]?)*@example[.]org$")


def is_address(text: str) -> bool:
    return ADDRESS.match(text) is not None


ready()
is_address("somebodywithaverylongnameandnohostatall" * 2)
