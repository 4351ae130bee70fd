"""The Fisher vector of one Gaussian mixture per site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek.errors import SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.gmm_fv import GmmFisher


@dataclass
class ConditionedGmmFisher(GmmFisher):
    """Encode every slide with the mixture of its own site: the paper's baseline, C-GMM-FV.

    The options are those of `gmm-fv`. Codes are comparable only within a site. Every site needs at least
    `components` training patches: all sites share one K, so all codes have the same width.
    """

    name: ClassVar[str] = "c-gmm-fv"
    by_site: ClassVar[bool] = True

    def space_of(self, bag: Bag) -> str:
        """Return the site of `bag`."""
        if not bag.site:
            raise SlideseekError(
                f"slide {bag.slide_id!r} has no site, and {self.name} has one mixture per site",
                "set its site, or use gmm-fv",
            )
        return bag.site
