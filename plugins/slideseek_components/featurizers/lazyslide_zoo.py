"""What all components share that run a model of the package lazyslide-models: its terms, its commit, its loading."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from slideseek.did_you_mean import did_you_mean
from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError, UsageError, one_line
from slideseek.interfaces import Fingerprinted
from slideseek_components.featurizers.extras import require_module
from slideseek_components.featurizers.lazyslide_facts import (
    PATCH_MODELS,
    SLIDE_MODELS,
    TEXT_MODELS,
    UNPINNED,
    Facts,
)
from slideseek_components.featurizers.pinned_hub import newest_cached, offline, pinned, snapshot
from slideseek_components.featurizers.run_options import Device, check_run_options

PACKAGE = "lazyslide-models"
OWN_WEIGHTS = ("uni", "uni2", "plip", "gigapath-flash", "crisp", "crown")
"""Models that take weights from a file or, for plip, a folder."""


@dataclass
class ZooModel(Fingerprinted):
    """A model of lazyslide-models, loaded from one commit of its repository on the hub.

    model: its name in the package. licence: the model's licence, repeated to say that you have read it: the error about
    a missing one names it. revision: the commit of its repository, 40 hexadecimal digits. weights: instead of a
    revision, a file with the weights, or for `plip` and models of its form (CLIP) a folder; not every model takes one.
    remote_code: allow a model that runs code from its repository; it is the code of the commit. device: where the
    network runs. batch: images per pass on a GPU.
    """

    code_revision: ClassVar[int] = 1
    known: ClassVar[Mapping[str, Facts]] = PATCH_MODELS
    what: ClassVar[str] = "patch encoder"

    model: str = ""
    licence: str = field(default="", metadata={"affects_result": False})
    revision: str = ""
    weights: Path | None = field(default=None, metadata={"affects_result": False})  # its content does: fingerprint()
    remote_code: bool = field(default=False, metadata={"affects_result": False})  # only a permission
    device: Device = field(default="auto", metadata={"affects_result": False})
    batch: int = field(default=16, metadata={"affects_result": False})
    sha256_: str = field(default="", init=False, repr=False, compare=False)
    loaded_: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.revision and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision: a commit of 40 hexadecimal digits, not {self.revision!r}")
        check_run_options(self.batch, self.device)

    @property
    def facts(self) -> Facts:
        """What is known about the model; an error if it is none of these, or cannot be used."""
        if self.model in self.known:
            return self.known[self.model]
        if self.model in UNPINNED:
            fix = "compute its features with another tool and use slideseek import"
            raise UsageError(f"model {self.model!r} cannot be loaded: {UNPINNED[self.model]}", fix)
        every = {**PATCH_MODELS, **TEXT_MODELS, **SLIDE_MODELS}
        cause = f"model {self.model!r} is not a {self.what} of {PACKAGE}"
        if self.model in every:
            raise UsageError(cause, f"choose one of {', '.join(self.known)}")
        cause = cause if self.model else f"no model of {PACKAGE} is named"
        raise UsageError(cause, did_you_mean(self.model, self.known, f"set model to one of {', '.join(self.known)}"))

    def fingerprint(self) -> str:
        """Return the package's version and the commit of the hub model, or the digest of the weights."""
        facts = self._allowed()
        if self.weights is None:
            return f"{PACKAGE} {version(PACKAGE)} {self.model} {facts.hub}@{self.revision}"
        if not self.sha256_:
            self.sha256_ = _sha256(self.weights.expanduser())
        return f"{PACKAGE} {version(PACKAGE)} {self.model} {self.sha256_}"

    def _allowed(self) -> Facts:
        """Return the facts; raise the error for whatever keeps the model from being used, before it is imported."""
        facts, name = self.facts, f"{PACKAGE} model {self.model!r}"
        if self.licence != facts.licence:
            raise UsageError(f"{name} has the licence {facts.terms}", f'to use it, set licence = "{facts.licence}"')
        if facts.code and not self.remote_code:
            cause = f"{name} runs code from huggingface.co/{facts.hub}"
            raise UsageError(cause, "set remote_code = true to run that of the commit in revision, which never changes")
        if find_spec("lazyslide_models") is None:
            raise UsageError(f"{name} needs the package {PACKAGE}", "run: pip install 'slideseek[lazyslide]'")
        if self.weights is not None:
            if self.model not in OWN_WEIGHTS:
                raise UsageError(f"{name} takes no weights from a file", "set revision to a commit of its repository")
            if not self.weights.expanduser().exists():
                raise UsageError(f"{name}: {self.weights} does not exist", "set weights to its file or folder")
        elif not self.revision:
            there = newest_cached(facts.hub, "lazyslide")
            fix = f"set revision to a commit of huggingface.co/{facts.hub}/commits/main, to keep results reproducible"
            raise UsageError(f"{name} is given without a revision", f'set revision = "{there}"' if there else fix)
        return facts

    def network(self) -> Any:
        """Return the package's model, in evaluation mode on the device; loaded once."""
        if self.loaded_ is None:
            facts = self._allowed()
            if self.weights is None:
                snapshot(facts.hub, self.revision, facts.files, "lazyslide")
            self.loaded_ = self._open(facts)
        return self.loaded_

    def _open(self, facts: Facts) -> Any:
        from slideseek_components.featurizers.timm_import import import_timm
        from slideseek_components.featurizers.torch_batches import choose_device

        import_timm()  # with what torchvision lacks here, before the package imports it
        zoo, hub = require_module("lazyslide_models", "lazyslide"), require_module("transformers", "lazyslide")
        hub.utils.logging.disable_progress_bar()
        path = str(self.weights.expanduser()) if self.weights else None
        try:
            with offline() if path else pinned(facts.hub, self.revision), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = zoo.MODEL_REGISTRY[self.model](model_path=path)
        except ImportError as error:
            cause = f"{PACKAGE} model {self.model!r} needs another package: {one_line(error, 300)}"
            raise UsageError(cause, "install it beside slideseek") from error
        except Exception as error:  # loaders of many packages: whatever is missing, the remedy is the same
            where = path or f"{facts.hub}@{self.revision[:8]}"
            raise SlideseekError(
                f"{PACKAGE} model {self.model!r} cannot be loaded from {where} ({one_line(error, 300)})",
                "check the file" if path else f"run 'hf download {facts.hub} --revision {self.revision}' again",
            ) from error
        with suppress(NotImplementedError):  # an exported program: it was exported in evaluation mode
            made.model.eval()
        return made.to(choose_device(self.device))


def _sha256(path: Path) -> str:
    """Return the digest of a file, or those of all files of a folder with their names."""
    if path.is_file():
        return sha256_file(path)
    return " ".join(f"{one.name} {sha256_file(one)}" for one in sorted(path.iterdir()) if one.is_file())
