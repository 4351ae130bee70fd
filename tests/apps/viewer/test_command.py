"""`slideseek serve` as people start and stop it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

from slideseek_apps.viewer.server import serving


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_an_address_answers_and_stops_cleanly(painted_archive, tmp_path, stop):
    command = [sys.executable, "-m", "slideseek", "serve", str(painted_archive), "--port", "0", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # A runner in the background passes on that interrupts are ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["url"] == f"{told['origin']}/?token={told['token']}" and len(told["token"]) >= 32
        with httpx.Client(follow_redirects=True, trust_env=False, timeout=30) as browser:
            assert "slideseek" in browser.get(told["url"]).text
            assert browser.get(f"{told['origin']}/api/archive").json()["slides"] == 8
        assert list(tmp_path.glob("slideseek-uploads-*"))
        process.send_signal(stop)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0 and "stopped" in said and "Traceback" not in said
        assert not list(tmp_path.glob("slideseek-uploads-*"))
    finally:
        process.kill()


def test_an_interrupt_ends_the_server_before_what_it_uses_is_closed(painted_archive, monkeypatch):
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    died = []
    monkeypatch.setattr(threading, "excepthook", lambda told: died.append(told.exc_value))
    try:
        with serving(painted_archive) as running:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(KeyboardInterrupt):
                running.wait()
            assert not running.ended.is_set()
        assert running.ended.is_set() and died == []
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_port_in_use_and_a_folder_that_is_not_an_archive_are_reported(painted_archive, tmp_path, slideseek):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = slideseek("serve", painted_archive, "--port", taken.getsockname()[1])
    assert done.code == 2 and "cannot be used" in done.err and "--port" in done.err
    done = slideseek("serve", tmp_path)
    assert done.code == 2 and "is not an archive" in done.err
