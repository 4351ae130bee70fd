"""Whose code made a result: own revisions, and those of base classes in other packages."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from slideseek.makers import maker_of
from slideseek.plugins import Registration
from slideseek_components.encoders.mean import Mean

ENTRY = Registration("encoder", "own", "own_package.encoder:Own", "an own mean", "own", "slideseek-own", "1.0")


@dataclass
class Own(Mean):
    """Inherits a bundled encoder."""


@dataclass
class Stated(Mean):
    """Inherits a bundled encoder and states a revision of its own."""

    code_revision: ClassVar[int] = 4


@pytest.mark.parametrize("kind", [Own, Stated])
def test_a_new_revision_of_an_inherited_class_counts(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    before = maker_of(ENTRY, kind())
    monkeypatch.setattr(Mean, "code_revision", 2)
    after = maker_of(ENTRY, kind())
    assert after.identity != before.identity
    assert "base class of revision 2" in str(after)


def test_the_first_revision_of_an_inherited_class_adds_nothing() -> None:
    assert maker_of(ENTRY, Own()).identity == ["slideseek-own", "1.0", "own_package.encoder:Own", ""]
    assert maker_of(ENTRY, Stated()).identity == ["slideseek-own", 4, ""]
