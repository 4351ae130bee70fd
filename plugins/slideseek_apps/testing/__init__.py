"""Check that a component follows its interface, with generated toy data.

Plugin authors run every check of their kind on their class::

    import pytest
    from slideseek_apps.testing import encoder_checks

    @pytest.mark.parametrize("check", encoder_checks(), ids=lambda check: check.__name__)
    def test_conformance(check):
        check(MyEncoder)

A check is a function that takes `make`, a callable returning a fresh component (the class itself, or a
`lambda` that sets options), and raises `CheckFailed` with the expected and the actual result and a fix.
`run_checks(kind, make)` runs them all and returns one `CheckResult` each, without pytest.

The toy data is public too: `toy_bags`, `toy_slide`, `toy_images` and `toy_codes` are small, seeded and cheap.
Names are imported on first use: importing this package loads neither numpy nor the checks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slideseek_apps.testing.checks import Check, CheckFailed, CheckResult
    from slideseek_apps.testing.encoders import encoder_checks
    from slideseek_apps.testing.featurizers import featurizer_checks
    from slideseek_apps.testing.indexes import index_checks
    from slideseek_apps.testing.readers import reader_checks
    from slideseek_apps.testing.rerankers import reranker_checks
    from slideseek_apps.testing.run import run_checks
    from slideseek_apps.testing.selectors import selector_checks
    from slideseek_apps.testing.toys import ToyBags, toy_bags, toy_codes, toy_images, toy_slide

__all__ = [
    "Check",
    "CheckFailed",
    "CheckResult",
    "ToyBags",
    "encoder_checks",
    "featurizer_checks",
    "index_checks",
    "reader_checks",
    "reranker_checks",
    "run_checks",
    "selector_checks",
    "toy_bags",
    "toy_codes",
    "toy_images",
    "toy_slide",
]

_MODULES = ("toys", "checks", "run")  # the last imports the checks of every kind


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
