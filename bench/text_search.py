"""Measure how well text finds slides: `python -m bench.text_search [--work FOLDER] [--seeds N]`.

No image-text model of pathology can be had offline, so a small one of the same form (CLIP, as PLIP) is trained on
painted patches and captions, and used as anybody's would be: `lazyslide-text` reads its folder. The archive
has painted slides of other patients. Queries are wordings that were not among the captions. precision: share of the
hits, as many as a class has slides, that are of the class the text describes; chance: the same for hits drawn at
random. Control: the same with captions shuffled over the patches while it is trained.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from slideseek.api import OpenArchive, create_archive
from slideseek.archive.adding import add_slides
from slideseek.archive.manifest import read_manifest
from slideseek.slides.discovery import find_slides
from slideseek.types import UInt8

CAPTIONS = {
    "carcinoma": ("dense dark nuclei", "crowded tumour cells", "a solid carcinoma"),
    "fat": ("round empty fat cells", "adipose tissue", "large white bubbles"),
    "muscle": ("long parallel fibres", "smooth muscle", "wavy stripes"),
    "glands": ("regular rings of glands", "tubules with a lumen", "healthy mucosa"),
}
QUERIES = {
    "carcinoma": "a crowded solid tumour with dark nuclei",
    "fat": "adipose with empty white bubbles",
    "muscle": "smooth fibres in parallel stripes",
    "glands": "a healthy mucosa of regular tubules",
}
SPECIAL = ("<|startoftext|>", "<|endoftext|>", "<pad>", "<unk>")
SIDE, MPP = 64, 2.0
"""Side of a patch in pixels, and µm per pixel."""
PATIENTS = 4
CONFIG = """
[[engine]]
name       = "text"
selector   = {{ use = "grid", size = {side}, mpp = {mpp}, min_tissue = 0.5 }}
featurizer = {{ use = "lazyslide-text", model = "plip", licence = "Non-commercial", weights = "{folder}" }}
encoder    = {{ use = "mean" }}
index      = {{ use = "cosine" }}

[[engine]]
name       = "images-only"
selector   = {{ use = "grid", size = {side}, mpp = {mpp}, min_tissue = 0.5 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ use = "mean" }}
index      = {{ use = "cosine" }}
"""


def train_clip(folder: Path, seed: int = 0, steps: int = 100, shuffled: bool = False) -> Path:
    """Train a small CLIP on painted patches and captions, and write it to a folder as transformers does.

    shuffled: give each patch the captions of a class drawn at random, for a control.
    """
    from slideseek_components.featurizers.timm_import import import_timm

    import_timm()  # with what torchvision lacks beside a CPU build of torch
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # a network this small is slower with more
    rng, classes = np.random.default_rng(seed), list(CAPTIONS)
    tokenizer, words = make_tokenizer()
    layers = {"intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 64}
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = CLIPConfig(
        text_config={**layers, **special, "vocab_size": words, "max_position_embeddings": 77},
        vision_config={**layers, "image_size": SIDE, "patch_size": 16},
        projection_dim=512,
    )
    network = CLIPModel(config)
    images = CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(steps):
        chosen = rng.integers(len(classes), size=32)
        shown = np.stack([painted(classes[one], SIDE, rng) for one in chosen]).astype(np.float32) / 255
        said = rng.permutation(chosen) if shuffled else chosen
        texts = [" ".join(rng.permutation(CAPTIONS[classes[one]])[: rng.integers(1, 4)]) for one in said]
        pixels = torch.tensor((shown - images.image_mean) / images.image_std, dtype=torch.float32).permute(0, 3, 1, 2)
        tokens = tokenizer(texts, padding="max_length", max_length=16, truncation=True, return_tensors="pt")
        tokens.pop("token_type_ids", None)
        scores = network(pixel_values=pixels, **tokens).logits_per_image
        same = torch.tensor(said[:, None] == said[None], dtype=torch.float32)
        wanted = same / same.sum(dim=1, keepdim=True)
        by_image, by_text = (torch.nn.functional.cross_entropy(one, wanted) for one in (scores, scores.T))
        optimizer.zero_grad()
        (by_image + by_text).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for part in (network, images, tokenizer):
        part.save_pretrained(folder)
    return folder


def painted(label: str, side: int, rng: np.random.Generator) -> UInt8:
    """Paint tissue of a class, RGB uint8 (side, side, 3) at 2 µm per pixel, in a stain drawn at random."""
    y, x = np.mgrid[:side, :side].astype(np.float64)
    wave = 3 * np.sin(y / 11 + rng.uniform(0, 6)) + 3 * np.sin(x / 9 + rng.uniform(0, 6))
    tilt = rng.uniform(0, np.pi)
    along = x * np.cos(tilt) + y * np.sin(tilt) + wave
    step = {"carcinoma": 5, "fat": 20, "muscle": 6, "glands": 22}[label]
    # The distance to the centre of a cell of a wavy, shifted grid.
    row = np.floor(y / step + wave / step)
    far = np.hypot((x + wave + row * step / 2) % step - step / 2, (y + wave) % step - step / 2) / (step / 2)
    dark = {
        "carcinoma": np.clip(1.3 - far, 0, 1),
        "fat": 0.9 * (far > 0.9) - 0.6 * (far <= 0.9),
        "muscle": 0.5 + 0.5 * np.sin(along * 2 * np.pi / step),
        "glands": np.exp(-((far - 0.7) ** 2) / 0.03),
    }[label]
    pink, purple = np.array([228, 160, 195]), np.array([105, 60, 140])
    pink, purple = pink + rng.uniform(-18, 18, 3), purple + rng.uniform(-18, 18, 3)
    share = np.clip(dark * rng.uniform(0.8, 1.1) + rng.normal(scale=0.08, size=dark.shape), -0.4, 1)[..., None]
    pixels: UInt8 = np.clip(pink + (purple - pink) * share, 0, 255).astype(np.uint8)
    return pixels


def write_slides(folder: Path, patients: int = PATIENTS, seed: int = 0, side: int = 400) -> Path:
    """Write slides of all classes, one per patient, with white around the tissue; return the manifest."""
    folder.mkdir(parents=True)
    rows = ["slide_id,filename,case_id,primary_site,diagnosis,mpp"]
    for kind, label in enumerate(CAPTIONS):
        for number in range(patients):
            image = np.full((side, side, 3), 244, np.uint8)
            image[40:-40, 40:-40] = painted(label, side - 80, np.random.default_rng([seed, kind, number]))
            name = f"{label}-{number}"
            Image.fromarray(image).save(folder / f"{name}.png")
            rows.append(f"{name},{name}.png,P-{kind}{number},body,{label},{MPP}")
    manifest = folder / "manifest.csv"
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def make_tokenizer() -> tuple[Any, int]:
    """Return a tokenizer of the words in captions and queries' other words as unknown, and how many it knows."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for captions in CAPTIONS.values() for caption in captions for word in caption.split()})
    known = {word: number for number, word in enumerate([*SPECIAL, *words])}
    made = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    ends = [(SPECIAL[0], 0), (SPECIAL[1], 1)]
    made.post_processor = processors.TemplateProcessing(single=f"{SPECIAL[0]} $A {SPECIAL[1]}", special_tokens=ends)
    names = dict(zip(("bos_token", "eos_token", "pad_token", "unk_token"), SPECIAL))
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=77, **names), len(known)


def described_archive(root: Path, clip: Path, patients: int = PATIENTS) -> OpenArchive:
    """Build an archive of painted slides with an engine that reads text and one that does not."""
    archive = create_archive(root, CONFIG.format(side=SIDE, mpp=MPP, folder=clip))
    manifest = write_slides(root / "slides", patients)
    with archive.archive.writing():
        add_slides(archive.archive, find_slides([manifest.parent]), (manifest, read_manifest(manifest)))
    archive.build()
    return archive


def precision(archive: OpenArchive, patients: int = PATIENTS) -> dict[str, float]:
    """Return, by class, the share of the hits of its query that are of the class."""
    found = {}
    for label, text in QUERIES.items():
        hits = archive.search(text, kind="text", k=patients, engine="text")
        found[label] = sum(one.record.label == label for one in hits) / patients
    return found


def rows(work: Path, seeds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield a name and the precision of each class, for each seed and control."""
    for seed in range(seeds):
        for name, shuffled in ((f"seed {seed}", False), (f"seed {seed}, captions shuffled", True)):
            place = work / name.replace(" ", "-").replace(",", "")
            clip = train_clip(place / "clip", seed, shuffled=shuffled)
            with described_archive(place / "archive", clip) as archive:
                yield name, precision(archive)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="keep the models and archives in this folder")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        print(f"| model | {' | '.join(QUERIES)} | mean | chance |")
        print(f"|{'---|' * (len(QUERIES) + 3)}")
        for name, found in rows(given.work or Path(temporary), given.seeds):
            shares = [f"{share:.2f}" for share in found.values()]
            mean = float(np.mean(list(found.values())))
            print(f"| {name} | {' | '.join(shares)} | {mean:.2f} | {1 / len(QUERIES):.2f} |", flush=True)


if __name__ == "__main__":
    main()
