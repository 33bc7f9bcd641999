"""Data files: in $FEDCONFORMAL_DATA, in the user's cache, or downloaded from their publisher as untrusted bytes.

Redirects are followed to https only, and reading stops at the size of the release. A file is stored in the cache only
if its checksum matches: sha256, or md5 where the publisher gives no other.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from fedconformal._base.files import write_bytes
from fedconformal._version import __version__
from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Progress

VARIABLE = "FEDCONFORMAL_DATA"
SYSTEM = Path("/usr/share/datasets")
"""Directory of Debian's data packages, such as dataset-fashion-mnist."""
CHUNK = 2**18
TIMEOUT = 30


@dataclass(frozen=True, kw_only=True)
class Release:
    """A published file: local name, address, maximum size in bytes, and a checksum such as "sha256:..."."""

    file: str
    url: str
    most: int
    checksum: str


def cache() -> Path:
    """Return the download directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedconformal"


def where() -> str:
    """Return a description of the directories for manual downloads."""
    return f"{cache()} or the directory that ${VARIABLE} names"


def find(*names: str) -> Path | None:
    """Return the first of these files that exists; each directory is searched for all of them before the next one."""
    own = os.environ.get(VARIABLE)
    places = [*([Path(own).expanduser()] if own else []), cache(), SYSTEM]
    return next((path for place in places for name in names if (path := place / name).exists()), None)


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            fp.close()
            raise urllib.error.URLError("redirected away from https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def connect(url: str) -> HTTPResponse:
    """Open an address, and follow redirects to https addresses only."""
    opener = urllib.request.build_opener(_OnlyHttps)
    opener.addheaders = [("User-Agent", f"fedconformal/{__version__}")]  # some publishers refuse urllib's
    answer: HTTPResponse = opener.open(url, timeout=TIMEOUT)
    return answer


def fetch(release: Release, *, progress: Progress | None = None) -> Path:
    """Download a release into the cache and return its path; a failed download leaves no file behind."""
    target, data = cache() / release.file, bytearray()
    kind, _, expected = release.checksum.partition(":")
    try:
        with connect(release.url) as answer:
            while chunk := answer.read(CHUNK):
                data += chunk
                if len(data) > release.most:
                    raise InputError(f"{release.url}: has more than {release.most} bytes; not used")
                if progress:
                    progress(len(data), release.most, release.file)
    except (OSError, HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = " ".join(str(getattr(error, "reason", None) or error).split())
        raise InputError(
            f"{release.file}: not found, and {release.url} cannot be downloaded ({reason}); "
            f"get it elsewhere and put it in {where()}"
        ) from None
    if hashlib.new(kind, data, usedforsecurity=False).hexdigest() != expected:
        raise InputError(f"{release.url}: the download does not have the official {kind}; not used")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, bytes(data))
    return target


def locate(release: Release, *, download: bool, progress: Progress | None = None) -> Path:
    """Return the path of a release's file in the data directories, or download it."""
    if path := find(release.file):
        return path
    if not download:
        raise InputError(f"{release.file}: not found; get it from {release.url} and put it in {where()}")
    return fetch(release, progress=progress)
