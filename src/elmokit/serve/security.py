"""API key and security headers."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.errors import ConfigError
from elmokit.serve.api_errors import ApiError, error_response

KEY_VARIABLE = "ELMO_API_KEY"
_LONGEST_KEY = 65_536  # bytes of a key file that are read
OPEN_PATHS = ("/health", "/ready")  # for probes, which have no key

PAGE_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_CLOSED_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


def read_key(path: Path | None) -> str | None:
    """The API key: from a file, else from the environment variable ELMO_API_KEY, else none."""
    if path is None:
        source, key = KEY_VARIABLE, os.environ.get(KEY_VARIABLE)
    else:
        source = f"--api-key-file {path}"
        try:
            with path.expanduser().open("rb") as file:  # a pipe, too: <(pass show key)
                key = file.read(_LONGEST_KEY).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if key is None:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{source}: expected a key of printable ASCII characters without spaces, found something else"
        )
    return key


class Guard:
    """ASGI middleware: refuses requests without the key, and adds security headers to every answer.

    The key comes as `Authorization: Bearer KEY`, or as the password of Basic authentication, which browsers ask for
    when they open the page. It is compared in constant time.
    """

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self.app, self._key = app, key.encode() if key is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                has_policy = any(name.lower() == b"content-security-policy" for name, _ in headers)
                message = {**message, "headers": [*headers, *_HEADERS, *([] if has_policy else [_CLOSED_POLICY])]}
            await send(message)

        if self._key is not None and scope["path"] not in OPEN_PATHS and not self._is_known(scope):
            wants_page = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
            scheme = 'Basic realm="elmo serve: the password is the API key"' if wants_page else "Bearer"
            message = "expected the API key, as Authorization: Bearer KEY"
            error = ApiError(401, "Unauthorized", message, {"WWW-Authenticate": scheme, "Connection": "close"})
            await error_response(scope["path"], error)(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)

    def _is_known(self, scope: Scope) -> bool:
        assert self._key is not None
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, credentials = given.partition(b" ")
        offered = credentials.strip()
        if scheme.lower() == b"basic":
            try:
                offered = base64.b64decode(offered, validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                offered = b""
        elif scheme.lower() != b"bearer":
            offered = b""
        return hmac.compare_digest(offered, self._key)
