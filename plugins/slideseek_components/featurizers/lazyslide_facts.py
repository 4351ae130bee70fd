"""Facts about the models of the package lazyslide-models, known without importing it, which takes many seconds.

Names, licences and widths are the package's own (a test compares them). Repositories are those its code asks for, which
are not always the ones it links to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ND = "CC-BY-NC-ND-4.0"
RUDOLF = "CC-BY-NC-ND-4.0 with supplementary terms"


@dataclass(frozen=True, slots=True)
class Facts:
    """One model of the zoo.

    hub: the repository of its weights. width: length of its vectors, None if only the weights say. side: of the images
    it resizes patches to. code: loading it runs code from the hub, or a file that may contain some. files: those of the
    repository that it needs. of: the patch encoder a slide encoder was trained on. inputs: how many values of a
    patch's features it takes, 0 for all.
    """

    hub: str
    width: int | None
    licence: str
    commercial: bool = False
    gated: bool = False
    side: int = 224
    code: bool = False
    files: str = "*"
    of: str = ""
    inputs: int = 0

    @property
    def terms(self) -> str:
        """What a person has to know before use, in a few words."""
        use = "commercial use allowed" if self.commercial else "not for commercial use"
        return f"{self.licence}, {use}" + (f", terms to accept at huggingface.co/{self.hub}" if self.gated else "")


PATCH_MODELS: Mapping[str, Facts] = {
    "conch-madeleine": Facts("MahmoodLab/conch", 512, ND, gated=True),
    "conch_v1.5": Facts("MahmoodLab/TITAN", 768, ND, gated=True, side=448, code=True),
    "chief": Facts("RendeiroLab/LazySlide-models-gpl", 768, "AGPL-3.0", code=True, files="CHIEF/CHIEF_patch*"),
    "virchow": Facts("paige-ai/Virchow", 2560, "Apache 2.0", commercial=True, gated=True),
    "virchow2": Facts("paige-ai/Virchow2", 2560, ND, gated=True),
    "crisp": Facts("FTZhou/CRISP", 2560, "MIT; CC-BY-NC-ND-4.0", gated=True),
    "crown": Facts("LexieK/Crown", 1024, "Apache-2.0", commercial=True, gated=True),
    "ctranspath": Facts("RendeiroLab/LazySlide-models-gpl", 768, "GPL-3.0", code=True, files="CTransPath/*"),
    "genbio-pathfm": Facts("genbio-ai/genbio-pathfm", 4608, "GenBio AI Community License", code=True),
    "gigapath": Facts("prov-gigapath/prov-gigapath", 1536, "Apache 2.0 with conditions", gated=True),
    "gigapath-flash": Facts("prov-gigapath/prov-gigapath-flash", 384, "Apache 2.0", gated=True),
    "gpfm": Facts("majiabo/GPFM", 1024, "CC BY-NC-ND 4.0"),
    "h-optimus-0": Facts("bioptimus/H-optimus-0", 1536, "Apache 2.0", commercial=True),
    "h-optimus-1": Facts("bioptimus/H-optimus-1", 1536, ND, gated=True),
    "h0-mini": Facts("bioptimus/H0-mini", 1536, ND, gated=True),
    "hibou-b": Facts("histai/hibou-b", 768, "Apache 2.0", commercial=True, gated=True, code=True),
    "hibou-l": Facts("histai/hibou-l", 1024, "Apache 2.0", commercial=True, gated=True, code=True),
    "lunit-bt": Facts("1aurent/resnet50.lunit_bt", 2048, "lunit-non-commercial"),
    "lunit-mocov2": Facts("1aurent/resnet50.lunit_mocov2", 2048, "lunit-non-commercial"),
    "lunit-swav": Facts("1aurent/resnet50.lunit_swav", 2048, "lunit-non-commercial"),
    "lunit-dino-s8": Facts("1aurent/vit_small_patch8_224.lunit_dino", 384, "lunit-non-commercial"),
    "lunit-dino-s8-moozy": Facts("1aurent/vit_small_patch8_224.lunit_dino", 384, "lunit-non-commercial"),
    "lunit-dino-s16": Facts("1aurent/vit_small_patch16_224.lunit_dino", 384, "lunit-non-commercial"),
    "midnight": Facts("kaiko-ai/midnight", 3072, "MIT", commercial=True, gated=True),
    "mstar": Facts("Wangyh/mSTAR", 1024, ND, gated=True),
    "path_orchestra": Facts("AI4Pathology/PathOrchestra", None, ND, gated=True),
    "phikon": Facts("owkin/phikon", 768, "Owkin non-commercial license"),
    "phikonv2": Facts("owkin/phikon-v2", 1024, "Owkin non-commercial license"),
    "rudolfv2-s": Facts("Aignostics/RudolfV-2-S", 384, RUDOLF, gated=True, code=True),
    "rudolfv2-b": Facts("Aignostics/RudolfV-2-B", 768, RUDOLF, gated=True, code=True),
    "rudolfv2": Facts("Aignostics/RudolfV-2", 1536, RUDOLF, gated=True, code=True),
    "uni": Facts("MahmoodLab/uni", 1024, ND, gated=True),
    "uni2": Facts("MahmoodLab/UNI2-h", 1536, ND, gated=True),
    "mascaret": Facts("wearewaiv/mascaret", 1536, "Waiv custom non-commercial license", gated=True, code=True),
    "phaet": Facts("wearewaiv/phaet", 1024, "Waiv custom non-commercial license", gated=True, code=True),
}
"""Encode patches."""

TEXT_MODELS: Mapping[str, Facts] = {
    "biomedclip": Facts("microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224", 512, "MIT", commercial=True),
    "conceptclip": Facts("JerrryNie/ConceptCLIP", 1152, "MIT", commercial=True, gated=True, side=384, code=True),
    "conch": Facts("MahmoodLab/conch", 512, ND, gated=True, side=448),
    "keep": Facts("Astaxanthin/KEEP", 768, "MIT", commercial=True),
    "medsiglip": Facts("google/medsiglip-448", 1152, "health-ai-developer-foundations", gated=True, side=448),
    "musk": Facts("xiangjx/musk", 1024, ND, gated=True, side=384),
    "omiclip": Facts("WangGuangyuLab/Loki", None, "BSD-3-Clause", commercial=True, gated=True, code=True),
    "plip": Facts("vinid/plip", 512, "Non-commercial"),
    "quiltnet-b32": Facts("wisdomik/QuiltNet-B-32", 512, "MIT", commercial=True),
    "quiltnet-b16": Facts("wisdomik/QuiltNet-B-16", 512, "MIT", commercial=True),
    "quiltnet-b16-pmb": Facts("wisdomik/QuiltNet-B-16-PMB", 512, "MIT", commercial=True),
}
"""Encode patches and text into one space."""

SLIDE_MODELS: Mapping[str, Facts] = {
    "prism": Facts("paige-ai/Prism", 1280, ND, gated=True, code=True, of="virchow"),
    "prism2": Facts("paige-ai/Prism2", 2560, ND, gated=True, code=True, of="virchow2", inputs=1280),
    "titan": Facts("MahmoodLab/TITAN", 768, ND, gated=True, code=True, of="conch_v1.5"),
    "chief-slide-encoder": Facts(
        "RendeiroLab/LazySlide-models-gpl", 768, "AGPL-3.0", code=True, files="CHIEF/CHIEF_slide*", of="chief"
    ),
    "madeleine": Facts(
        "RendeiroLab/LazySlide-models", 512, "CC BY-NC-ND 4.0", code=True, files="MADELEINE/*", of="conch-madeleine"
    ),
    "moozy": Facts("AtlasAnalyticsLab/MOOZY", 768, "CC-BY-NC-SA-4.0", of="lunit-dino-s8-moozy"),
}
"""Encode the features of a whole slide."""

UNPINNED: Mapping[str, str] = {
    "open-midnight": "its code comes from GitHub, and cannot be pinned",
    "gigapath-slide-encoder": "it downloads its weights each time, and cannot be pinned",
    "gigapath-flash-slide-encoder": "it downloads its weights each time, and cannot be pinned",
}
"""Models of the package that cannot be used here, and why."""
