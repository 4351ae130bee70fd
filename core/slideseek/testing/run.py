"""Run every check of a kind over one component and report, without raising for a component that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slideseek.plugins import KINDS, Kind
from slideseek.testing.checks import Check, CheckFailed, CheckResult, described, summary_of
from slideseek.testing.encoders import encoder_checks
from slideseek.testing.featurizers import featurizer_checks
from slideseek.testing.indexes import index_checks
from slideseek.testing.selectors import selector_checks

_CHECKS: dict[Kind, Callable[[], tuple[Check, ...]]] = {
    "selector": selector_checks,
    "featurizer": featurizer_checks,
    "encoder": encoder_checks,
    "index": index_checks,
}


def run_checks(kind: Kind, make: Callable[[], Any]) -> list[CheckResult]:
    """Run every check of `kind` over components that `make` returns, each check on fresh ones.

    A failing component never raises here: an exception of its own is a failed check with its type and message.
    An unknown kind is a ValueError.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: one of {', '.join(KINDS)}, not {kind!r}")
    return [_run(check, make) for check in _CHECKS[kind]()]


def _run(check: Check, make: Callable[[], Any]) -> CheckResult:
    started = time.perf_counter()
    message = ""
    try:
        check(make)
    except CheckFailed as failure:
        message = str(failure)
    except Exception as error:  # a component may raise anything; that is a finding, not a crash of the kit
        message = f"the component raised {described(error)}"
    seconds = time.perf_counter() - started
    return CheckResult(check.__name__, summary_of(check), not message, message, seconds)
