"""Which guards watch a benchmark. All are on unless a configuration switches one off, and results say so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guards:
    """The table `[guards]`.

    patients: no patient on both sides of a fit. duplicates: no slide under two names of different patients. labels: no
    encoder whose codes depend on who a slide is.
    """

    patients: bool = True
    duplicates: bool = True
    labels: bool = True

    @property
    def off(self) -> list[str]:
        """Names of the guards that are switched off."""
        return [name for name in ("patients", "duplicates", "labels") if not getattr(self, name)]
