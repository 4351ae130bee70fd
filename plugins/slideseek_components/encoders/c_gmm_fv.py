"""The Fisher vector of one Gaussian mixture per site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek.errors import SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.gmm_fv import GmmFisher


@dataclass
class ConditionedGmmFisher(GmmFisher):
    """Code every slide with the mixture of its own site: the paper's baseline, C-GMM-FV.

    The options are those of `gmm-fv`. Codes are comparable within a site only. Every site needs at least
    `components` training patches: all sites share one K, so that the width of a code does not depend on its site.
    """

    name: ClassVar[str] = "c-gmm-fv"
    by_site: ClassVar[bool] = True

    def space_of(self, bag: Bag) -> str:
        """Return the site of `bag`."""
        if not bag.site:
            raise SlideseekError(
                f"slide {bag.slide_id!r} has no site and {self.name} has one mixture per site",
                "give its site, or use gmm-fv",
            )
        return bag.site
