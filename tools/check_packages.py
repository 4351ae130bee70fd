"""Build the wheel and the sdist, install them in fresh environments and use them there: `make packages`.

On the Python that runs this, the wheel alone must run the demonstration, search and serve without a compiler. On every
Python at hand, with everything but torch installed, an archive that was built elsewhere must be searchable. What was
done on which Python is printed; anything that fails ends the run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.12", "3.13")
EPOCH = "1767225600"
"""SOURCE_DATE_EPOCH of the builds: the same tree gives the same bytes on any day."""

NO_TORCH = "torch ; sys_platform == 'none'\n"
"""Override for uv: torch for a platform that does not exist, so that it is left out."""

SEARCH = """
import sys
from slideseek.cli import main
try:
    main()
except SystemExit as end:
    loaded = sorted({"torch", "numba", "prompt_toolkit", "onnxruntime"} & set(sys.modules))
    assert not loaded, f"a search of stored codes imports {loaded}"
    raise
"""


def run(*words: str | Path, **settings: str) -> str:
    """Run a command to its end and return what it prints; raise if it fails."""
    kept = ("PATH", "HOME", "PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_CACHE_DIR", "UV_INDEX_URL", "UV_DEFAULT_INDEX")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "UV_"))}
    environment.setdefault("UV_FIND_LINKS", os.environ.get("PIP_FIND_LINKS", ""))
    done = subprocess.run(
        [str(word) for word in words], env=environment | settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, words))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(target: Path) -> tuple[Path, Path]:
    """Build sdist and wheel (the wheel from the sdist, as a package index would) and return them."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT, SOURCE_DATE_EPOCH=EPOCH)
    return next(target.glob("*.tar.gz")), next(target.glob("*.whl"))


def check_contents(sdist: Path, wheel: Path) -> None:
    """Check what is in the files, and what their metadata promises."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    for package in ("slideseek", "slideseek_components", "slideseek_apps"):
        assert f"{package}/py.typed" in names, f"{package}: no py.typed in the wheel"
    strays = [name for name in names if "test" in name.split("/")[0] or name.endswith(".pth")]
    assert not strays, f"in the wheel but not of the package: {strays}"
    needs = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    capped = [need for need in needs if need.startswith("torch") and "<" in need.partition(";")[0]]
    assert not capped, f"capped: {capped}"
    compiled = [need for need in needs if need.startswith("annoy") and "extra == 'annoy'" not in need]
    assert not compiled, f"needs a compiler: {compiled}"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("tests/conftest.py", "bench/__init__.py", "docs/index.md", "zensical.toml", "Makefile", "LICENSE"):
        assert needed in inside, f"{needed} is missing in the sdist"


def fresh(python: Path, folder: Path, package: Path, *options: str) -> Path:
    """Make an environment with a package and what it needs, all from wheels; return its folder of commands."""
    run(UV, "venv", "--quiet", "--python", python, folder)
    wheels = ("--only-binary", ":all:") if package.suffix == ".whl" else ()
    words = (*wheels, "--constraint", ROOT / "constraints.txt", *options)
    # A build that calls a compiler must fail here, as it would on a machine that has none.
    run(UV, "pip", "install", "--quiet", "--python", folder, *words, package, CC="/bin/false", CXX="/bin/false")
    return folder / "bin"


def search(bin_folder: Path, archive: Path) -> None:
    """Search an archive of another environment, and see that neither torch nor a compiler is imported for it."""
    found = run(bin_folder / "python", "-c", SEARCH, "search", "breast-duc-01", "--json", "-a", archive)
    hits = json.loads(found)["hits"]
    assert len(hits) == 5, hits


def serve(bin_folder: Path, archive: Path) -> None:
    """Start the viewer, load its page and stop it."""
    server = subprocess.Popen(
        [bin_folder / "slideseek", "serve", archive, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        signed_in = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with signed_in.open(url, timeout=30) as page:
            assert b"slideseek" in page.read()
    finally:
        server.terminate()
        server.wait(20)


def check(pythons: Sequence[str], work: Path) -> None:
    """Build twice, compare, install and use."""
    sdist, wheel = build(work / "first")
    again = build(work / "second")
    for one, other in zip((sdist, wheel), again):
        same = hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()
        assert same, f"{one.name} differs between two builds"
    check_contents(sdist, wheel)
    print(f"built   {sdist.name} and {wheel.name}, twice the same bytes")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    demo = work / "demo"
    commands = fresh(Path(sys.executable), work / "whole", wheel)
    run(commands / "slideseek", "demo", "--dir", demo)
    search(commands, demo)
    serve(commands, demo)
    print(f"{here}    wheel alone, no compiler: demo, search, serve; a search imports neither torch nor numba")
    override = work / "no-torch.txt"
    override.write_text(NO_TORCH)
    for python in pythons:
        if (runs := interpreter(python)) is None:
            print(f"{python}    not on this machine")
            continue
        for package in (wheel, sdist) if python == here else (wheel,):
            folder = work / f"light-{python}-{package.suffix[1:]}"
            commands = fresh(runs, folder, package, "--override", str(override))
            search(commands, demo)
            run(commands / "slideseek", "status", "-a", demo)
            print(f"{python}    {package.name} without torch: search and status of an archive built elsewhere")


def interpreter(version: str) -> Path | None:
    """Return a Python of a version that runs here: on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for found in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(found)
    return None


def main() -> None:
    """Run all checks; with --keep, leave the built files in dist/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", default=PYTHONS, help="versions to try, of those on this machine")
    parser.add_argument("--keep", action="store_true", help="copy the built files to dist/")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check(chosen.python, Path(folder))
        if chosen.keep:
            shutil.copytree(Path(folder) / "first", ROOT / "dist", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
