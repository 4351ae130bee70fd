"""Servers on loopback, and environments in which slideseek finds them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # the servers are imported by their name
    sys.path.append(str(HERE))

from servers import Ranges, s3_server, web_server  # noqa: E402 - found only now


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    pytest.importorskip("s3fs", reason="slides elsewhere need slideseek[cloud]")
    with s3_server() as address:
        yield address


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache of objects."""
    monkeypatch.setenv("SLIDESEEK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def s3(s3_address: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], str]:
    """Put an object into S3 on loopback: `s3("bucket/key", data)` returns its URL."""
    import boto3

    settings = {"AWS_ENDPOINT_URL": s3_address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret-test-key"}
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    client: Any = boto3.client("s3")

    def put(name: str, data: bytes) -> str:
        bucket, _, key = name.partition("/")
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key=key, Body=data)
        return f"s3://{name}"

    return put


@pytest.fixture
def web(cache: Path) -> Iterator[tuple[str, type[Ranges]]]:
    """A web server on loopback that serves ranges, and what it serves."""
    pytest.importorskip("aiohttp", reason="slides elsewhere need slideseek[cloud]")
    with web_server() as found:
        yield found


@pytest.fixture
def texture() -> Callable[..., np.ndarray]:
    """Paint a stained-looking image: `texture(seed, coarse, side)`."""

    def paint(seed: int, coarse: bool = True, side: int = 512) -> np.ndarray:
        rng = np.random.default_rng(seed)
        step = 16 if coarse else 4
        noise = np.kron(rng.random((side // step, side // step)), np.ones((step, step)))[..., None]
        pink, purple = np.array([225.0, 150.0, 190.0]), np.array([110.0, 60.0, 140.0])
        image = np.full((side, side, 3), 244.0)
        inner = slice(side // 8, side - side // 8)
        image[inner, inner] = (pink * (1 - noise) + purple * noise)[inner, inner]
        return image.astype(np.uint8)

    return paint
