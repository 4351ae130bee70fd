"""Objects on other machines through fsspec: what lies at a URL, in which version, and ranges of its bytes.

Credentials come from where each back end of fsspec looks for them (environment, configuration files, roles); they are
neither stored nor shown. Without any, S3 is asked anonymously.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from slideseek.errors import SlideError, one_line

CONNECT_SECONDS, READ_SECONDS, ATTEMPTS, PAUSE = 5.0, 30.0, 4, 0.2
"""Limits of one request; how often a request that was cut off is made, and the seconds before the second attempt."""

SECRETS = {"token", "access_token", "sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-security-token"}
_WEB = ("http", "https")
_S3 = ("s3", "s3a")
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "mtime", "Last-Modified", "LastModified", "created")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object: its URL, its size in bytes and its version (an ETag, a generation, a date; "" if its store has none).

    etag: what a read can be made conditional on, "" if nothing.
    """

    url: str
    size: int
    version: str
    etag: str = ""


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, in lower case."""
    return url.partition(":")[0].lower()


def known_scheme(url: str) -> bool:
    """Return whether fsspec has a back end for the scheme of a URL, installed or not."""
    if "://" not in url:
        return False
    import fsspec  # here and below: local slides, which most archives have alone, do without it

    return scheme_of(url) in fsspec.available_protocols()


def objects_at(url: str) -> tuple[list[StoredObject], bool] | None:
    """Return the object at a URL, or those directly in a folder, and whether it is a folder; None if nothing is there.

    One request for an object, two for a folder.
    """
    with _answers(url) as system:
        try:
            info = system.info(url, **({"refresh": True} if scheme_of(url) in _S3 else {}))
        except FileNotFoundError as error:
            # Of the web, fsspec makes this error of any failure.
            if scheme_of(url) in _WEB and getattr(error.__cause__, "status", 0) not in (404, 410):
                raise ConnectionError(one_line(error.__cause__ or error)) from error
            return None
        if info["type"] != "directory":
            return [_object(url, info)], False
        inside = [entry for entry in system.ls(url, detail=True) if entry["type"] != "directory"]
        return [_object(_url(url, entry["name"]), entry) for entry in inside], True


def all_below(url: str) -> Iterator[str]:
    """Yield the URLs of all objects below a folder."""
    with _answers(url) as system:
        for name in system.find(url):
            yield _url(url, name)


def read_range(one: StoredObject, start: int, end: int) -> bytes:
    """Return bytes start to end of an object; a connection that is cut off is made again.

    Raises `SlideError` if the object is no longer of that version: bytes of two versions must not be mixed.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            data = _range(one, start, end)
        except (SlideError, MemoryError):
            raise
        except Exception as error:  # every back end raises its own types
            if _says(error, "412", "precondition", "pre-condition"):
                raise _replaced(one) from error
            failure: BaseException = error
            if isinstance(error, FileNotFoundError | PermissionError):
                break
        else:
            if len(data) == end - start:
                return data
            if len(data) == one.size:
                cause = f"the server of {bare(one.url)} does not serve ranges"
                raise SlideError(cause, "copy the file, and add the copy")
            failure = ConnectionError(f"{len(data):,} of {end - start:,} bytes came")
    cause = f"{bare(one.url)} cannot be read ({one_line(failure)})"
    raise SlideError(cause, "check the network and the credentials, then build again") from failure


def bare(url: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else url


def refuse_secrets(url: str) -> None:
    """Raise `SlideError` for a URL that contains a password or a signature: it would be stored in the archive."""
    parts = urlsplit(url)
    if "@" in parts.netloc or SECRETS & {name.lower() for name, _ in parse_qsl(parts.query)}:
        raise SlideError(
            f"the URL {bare(url)} contains a password or a signature, which the archive would keep",
            "give the plain URL, and the credentials in the environment or the configuration of its back end",
        )


def _range(one: StoredObject, start: int, end: int) -> bytes:
    with _system(one.url) as system:
        if one.etag and scheme_of(one.url) in _S3:
            bucket, key, _ = system.split_path(one.url)
            wanted = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{end - 1}", "IfMatch": one.etag}
            return bytes(_body(system, system.call_s3("get_object", **wanted)))
        if one.etag and scheme_of(one.url) in _WEB:
            return bytes(system.cat_file(one.url, start, end, headers={"If-Match": one.etag}))
        data = bytes(system.cat_file(one.url, start, end))
        found = objects_at(one.url)  # other stores are asked again whether it is still the same object
        if found is None or found[0][0].version != one.version:
            raise _replaced(one)
        return data


def _body(system: Any, answer: Mapping[str, Any]) -> bytes:
    from fsspec.asyn import sync

    async def read() -> bytes:
        try:
            return bytes(await answer["Body"].read())
        finally:
            answer["Body"].close()

    return bytes(sync(system.loop, read))


def _replaced(one: StoredObject) -> SlideError:
    return SlideError(f"{bare(one.url)} changed while it was read", "run 'slideseek build' again")


@contextmanager
def _answers(url: str) -> Iterator[Any]:
    """Give the back end of a URL; its errors become `SlideError`."""
    refuse_secrets(url)
    try:
        with _system(url) as system:
            yield system
    except (SlideError, MemoryError):
        raise
    except Exception as error:
        raise SlideError(
            f"{bare(url)} cannot be reached ({one_line(error)})", "check the URL, the network and the credentials"
        ) from error


@contextmanager
def _system(url: str) -> Iterator[Any]:
    """Give the back end of a URL. What the user configures for it (`FSSPEC_S3_...`) goes before what is set here."""
    import fsspec

    scheme = scheme_of(url)
    options: dict[str, Any] = {"use_listings_cache": False}
    try:
        if scheme in _S3:
            retries = {"max_attempts": 1}  # they are made here
            limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": retries}
            options |= {"config_kwargs": limits, "anon": not _has_s3_credentials()}
        elif scheme in _WEB:
            from aiohttp import ClientTimeout

            limit = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
            options["client_kwargs"] = {"timeout": limit}
        yield fsspec.filesystem(scheme, **{**options, **fsspec.config.conf.get(scheme, {})})
    except ImportError as error:
        cause = f"{bare(url)} needs a package that is not installed ({one_line(error)})"
        raise SlideError(cause, "pip install 'slideseek[cloud]', or the fsspec back end of the scheme") from error


@cache
def _has_s3_credentials() -> bool:
    import botocore.session

    return botocore.session.get_session().get_credentials() is not None


def _object(url: str, info: Mapping[str, Any]) -> StoredObject:
    if info.get("size") is None:
        raise SlideError(f"the server of {bare(url)} does not state its size", "copy the file, and add the copy")
    etag = str(info.get("ETag") or "")
    version = next((f"{name} {info[name]}" for name in _VERSIONS if info.get(name)), "")
    return StoredObject(url, int(info["size"]), version, "" if etag.startswith("W/") else etag)


def _url(folder: str, name: str) -> str:
    """Return the URL of a name that the back end listed in a folder."""
    return name if "://" in name else f"{scheme_of(folder)}://{name.lstrip('/')}"


def _says(error: BaseException, *words: str) -> bool:
    return any(word in str(error).lower() for word in words) or getattr(error, "status", 0) == 412
