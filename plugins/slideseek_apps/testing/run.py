"""Run every check of a kind on one component and report; a failing component does not raise."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from slideseek.boundary import DEBUG_VARIABLE
from slideseek.plugins import Kind
from slideseek_apps.testing.checks import Check, CheckFailed, CheckResult, summary_of
from slideseek_apps.testing.encoders import encoder_checks
from slideseek_apps.testing.featurizers import featurizer_checks
from slideseek_apps.testing.indexes import index_checks
from slideseek_apps.testing.readers import reader_checks
from slideseek_apps.testing.rerankers import reranker_checks
from slideseek_apps.testing.selectors import selector_checks

_CHECKS: dict[Kind, Callable[[], tuple[Check, ...]]] = {
    "selector": selector_checks,
    "featurizer": featurizer_checks,
    "encoder": encoder_checks,
    "index": index_checks,
    "reranker": reranker_checks,
    "reader": reader_checks,
}
CHECKED_KINDS: tuple[Kind, ...] = tuple(_CHECKS)
"""The kinds that have checks."""


def run_checks(kind: Kind, make: Callable[[], Any], checks: Sequence[Check] | None = None) -> list[CheckResult]:
    """Run the checks of `kind` on components that `make` returns, each check on fresh ones.

    checks: run these instead of all checks of the kind, such as `encoder_checks(widths=(1024,))`. A failing component
    never raises here: its exception is a failed check with its type and message, and with SLIDESEEK_DEBUG set its
    traceback is shown. An unknown kind is a ValueError.
    """
    if kind not in CHECKED_KINDS:
        raise ValueError(f"kind must be one of {', '.join(CHECKED_KINDS)}, not {kind!r}")
    return [_run(check, make) for check in (_CHECKS[kind]() if checks is None else checks)]


def _run(check: Check, make: Callable[[], Any]) -> CheckResult:
    started = time.perf_counter()
    message = ""
    try:
        check(make)
    except CheckFailed as failure:
        message = str(failure)
        if failure.__cause__ is not None and os.environ.get(DEBUG_VARIABLE):
            traceback.print_exception(failure.__cause__)
    seconds = time.perf_counter() - started
    return CheckResult(check.__name__, summary_of(check), not message, message, seconds)
