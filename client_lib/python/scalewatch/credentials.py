"""What the server's HTTP API is asked with: the token and the certificates that the environment names, as the native library reads
them (SCALEWATCH_TOKEN_FILE, SCALEWATCH_TOKEN, SCALEWATCH_CA_FILE, SCALEWATCH_CERT_FILE, SCALEWATCH_KEY_FILE)."""
from __future__ import annotations

import os
import ssl
import urllib.parse
import urllib.request
from typing import Optional

__all__ = ["request", "tls_context", "wants_tls"]


def wants_tls() -> bool:
    """Whether the environment names what only TLS has a use for."""
    return any(os.environ.get(f"SCALEWATCH_{name}_FILE") for name in ("CA", "CERT", "KEY"))


def _token() -> str:
    path = os.environ.get("SCALEWATCH_TOKEN_FILE")
    if not path:
        return os.environ.get("SCALEWATCH_TOKEN", "").strip()
    with open(path, encoding="ascii") as file:
        return file.read(1024).strip()


def request(url: str) -> urllib.request.Request:
    """A question that shows the token; to another machine only over https. OSError when its file can't be read."""
    made = urllib.request.Request(url)
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    token = _token()
    if token and (parts.scheme == "https" or host in ("localhost", "::1") or host.startswith("127.")):
        made.add_unredirected_header("Authorization", f"Bearer {token}")
    return made


def tls_context(url: str) -> Optional[ssl.SSLContext]:
    """For https: who is believed, and this side's own certificate. OSError (ssl.SSLError too) when a file can't be used."""
    if not url.startswith("https:"):
        return None
    authorities, certificate = (os.environ.get(f"SCALEWATCH_{name}_FILE") or None for name in ("CA", "CERT"))
    key = os.environ.get("SCALEWATCH_KEY_FILE") or None
    try:
        context = ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise OSError(f"$SCALEWATCH_CA_FILE, {authorities}: {error}") from None
    try:
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise OSError(f"$SCALEWATCH_CERT_FILE and _KEY_FILE, {certificate} and {key}: {error}") from None
    return context
