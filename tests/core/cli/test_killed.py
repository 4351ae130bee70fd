"""A build killed at random moments goes on where it stopped and ends in the same bytes."""

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

pytestmark = pytest.mark.slow

KILLS = 20


def codes(archive):
    with sqlite3.connect(archive / "catalog.sqlite") as db:
        rows = db.execute(
            "SELECT s.slide_id, s.settings, p.key, p.meta, p.data, p.sha256 FROM stages s"
            " JOIN payloads p ON p.key = s.key WHERE s.stage = 'encode' AND s.status = 'done' ORDER BY 1, 2"
        ).fetchall()
    db.close()
    return rows


def build(archive):
    return subprocess.Popen(
        [sys.executable, "-m", "slideseek", "build", "-a", str(archive)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_after(process, lines, delay):
    """Read `lines` lines of progress, wait `delay` seconds, kill; return whether the process was still alive."""
    for _ in range(lines):
        if not process.stderr.readline():
            break
    time.sleep(delay)
    alive = process.poll() is None
    process.kill()
    drain = threading.Thread(target=process.stderr.read)
    drain.start()
    process.wait()
    drain.join()
    process.stderr.close()
    return alive


def test_killed_twenty_times(tmp_path, tiny_slides, tiny_config, slideseek):
    rng = random.Random(0)
    fresh, whole = tmp_path / "fresh", tmp_path / "whole"
    slideseek("init", fresh, "--config", tiny_config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", fresh)
    shutil.copytree(fresh, whole)
    assert build(whole).wait() == 0
    expected = codes(whole)
    assert len(expected) == 16

    killed = rounds = 0
    while killed < KILLS:
        archive = tmp_path / f"round{rounds}"
        shutil.copytree(fresh, archive)
        progress = 0
        while killed < KILLS and len(codes(archive)) < len(expected):
            killed += kill_after(build(archive), rng.randint(0, 3) + progress, rng.random() * 0.15)
            progress = min(progress + 2, 20)
        last = build(archive)
        _, err = last.communicate()
        assert last.returncode == 0, err
        assert codes(archive) == expected
        rounds += 1
    done = slideseek("search", "s0", "-a", archive, "--json")
    assert done.code == 0 and not done.json["notes"]
    assert not [p for p in archive.rglob("*") if ".tmp-" in p.name], "what was left half-written is cleared"
