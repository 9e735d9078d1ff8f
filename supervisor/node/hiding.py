"""What an attempt may not tell of its params: removed from its ending before that is written.

Invariant: no error, traceback or output that the store keeps holds the values of params that their
type marks as secret, or whose names say so. A result is the task's own word and stays as it is;
surfaces hide it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from autopsy.secret import Secrets, in_params
from supervisor.model.outcome import Outcome
from supervisor.model.spec import PARAMS_WARN_BYTES


def without_secrets(
    outcome: Outcome, output: str | None, params_json: str, marked: Sequence[str]
) -> tuple[Outcome, str | None]:
    """Return an ending and its output without the values of secret params."""
    if params_json == "{}" or (not marked and len(params_json) > PARAMS_WARN_BYTES):
        return outcome, output  # one too long for the loop is not read for its names
    values = list(in_params(json.loads(params_json), marked))
    if not values:
        return outcome, output
    secrets = Secrets(values)

    def clean(text: str | None) -> str | None:
        return text and secrets.text(text)

    told = {name: clean(getattr(outcome, name)) for name in ("error", "traceback", "detail")}
    return msgspec.structs.replace(outcome, **told), clean(output)
