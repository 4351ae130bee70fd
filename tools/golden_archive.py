"""Write the golden archive of this version of the format: `PYTHONPATH=. python tools/golden_archive.py tests/golden`.

Run it once per version of the catalogue, and never again for the same one: the file says what that version wrote.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from reliability.toy_archive import STAGES, command, paint
from slideseek.archive.schema import VERSION

DATE = 1_700_000_000
"""A whole second: tar keeps no more of it."""

CONFIG = f"""[[engine]]
name = "bars"
{STAGES}
encoder = {{ use = "yottixel" }}
index = {{ use = "hamming" }}

[[engine]]
name = "fitted"
{STAGES}
encoder = {{ use = "gmm-fv", components = 1, pca = 4 }}
index = {{ use = "cosine" }}
"""


def write(target: Path) -> Path:
    """Build a small archive, and pack it with the answers of its engines."""
    packed = target / f"archive-{VERSION}.tar.xz"
    if packed.exists():
        raise SystemExit(f"{packed} exists: it is what version {VERSION} wrote")
    with tempfile.TemporaryDirectory() as work:
        root, config = Path(work) / "archive", Path(work) / "golden.toml"
        config.write_text(CONFIG, encoding="utf-8")
        (root / "slides").mkdir(parents=True)
        rows = ["slide_id,filename,case_id,primary_site,diagnosis,center,mpp,age"]
        for n, seed in enumerate((0, 2, 5)):
            paint(root / "slides" / f"s{n}.png", seed, 128)
            os.utime(root / "slides" / f"s{n}.png", (DATE, DATE))
            rows.append(f"s{n},s{n}.png,p{n},colon,{'ab'[n % 2]},C,1,{50 + n}")
        (root / "slides" / "manifest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        for step in (
            ("init", root, "--config", config),
            ("add", root / "slides", "--manifest", root / "slides" / "manifest.csv", "-a", root),
            ("build", "-a", root),
            ("verify", root),
        ):
            if (done := command(*step)).code:
                raise SystemExit(done.err)
            os.utime(root / "slideseek.toml", (DATE, DATE))
        answers = {}
        for engine in ("bars", "fitted"):
            found = command("search", "s0", "-a", root, "--engine", engine, "--json").json["hits"]
            answers[engine] = [[hit["slide"]["id"], hit["distance"]] for hit in found]
        (root / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        with tarfile.open(packed, "w:xz") as tar:
            tar.add(root, arcname="archive")
    return packed


if __name__ == "__main__":
    written = write(Path(sys.argv[1]))
    sys.stdout.write(f"{written}: {written.stat().st_size:,} bytes\n")
