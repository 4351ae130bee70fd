"""Paint slides that look like haematoxylin and eosin: for the demo, for tests and for plugin authors.

No pixel comes from a patient. Tissue is built from smooth random fields (outline, fibres, tubes of epithelium), cells
are drawn one by one as soft ellipses, and the colour follows from two stain concentrations by the Beer-Lambert law.
"""

from slideseek_apps.demo.histology.demo import COLUMNS, write_demo
from slideseek_apps.demo.histology.plan import DemoSlide, demo_slides, paint
from slideseek_apps.demo.histology.pyramid import write_slide

__all__ = ["COLUMNS", "DemoSlide", "demo_slides", "paint", "write_demo", "write_slide"]
