"""A build with nothing to do says so without importing a network, and does not overlook new weights."""

import subprocess
import sys

from slideseek.config import parse_config
from slideseek.engine import signature
from slideseek.plugins import load_registry

CONFIG = """
[[engine]]
name       = "net"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "efficientnet-lite0", side = 32 }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""

IDLE = """
import sys
from slideseek.cli import main
try:
    main(["build", "-a", sys.argv[1], "--json"])
except SystemExit as done:
    assert not done.code, done.code
loaded = {"torch", "timm", "onnxruntime"} & set(sys.modules)
assert not loaded, loaded
"""


def test_it_imports_no_network(tmp_path, tiny_slides, slideseek):
    (tmp_path / "net.toml").write_text(CONFIG)
    slideseek("init", tmp_path / "archive", "--config", tmp_path / "net.toml")
    slideseek("add", tiny_slides / "s0.png", tiny_slides / "s1.png", "--mpp", "1.0", "-a", tmp_path / "archive")
    assert slideseek("build", "-a", tmp_path / "archive", "--json").json["slides"]["ok"] == 2
    done = subprocess.run(
        [sys.executable, "-c", IDLE, tmp_path / "archive"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"skipped": 2' in done.stdout


def test_a_file_named_in_an_option_counts(tmp_path):
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"one")
    use = '{ use = "efficientnet-lite0", side = 32 }'
    text = CONFIG.replace(use, f'{{ use = "densenet121", weights = "{weights}" }}')
    (engine,) = parse_config(text).engines
    registry = load_registry()
    before = signature(engine, registry)
    assert before and signature(engine, registry) == before
    weights.write_bytes(b"other")
    assert signature(engine, registry) != before
