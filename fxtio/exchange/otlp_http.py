"""Sends OTLP JSON lines to a receiver of OpenTelemetry, such as its collector: each line is the body of a request.

The environment variables are those of exporters of OpenTelemetry: `OTEL_EXPORTER_OTLP_HEADERS` (`name=value,...`),
`OTEL_EXPORTER_OTLP_TIMEOUT` (milliseconds) and `OTEL_EXPORTER_OTLP_COMPRESSION` (`gzip`), of which those with
`OTLP_TRACES_` count more; for proxies and certificates they are those of Python.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import base64
import gzip
import http.client
import os
import queue
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from fxtio.errors import FormatError, FxtioError, described
from fxtio.exchange.json_events import UNREADABLE
from fxtio.report import counted, printable

PATH = "/v1/traces"
"""The end of the path of a receiver of spans; it is added where it is missing."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""The seconds between two attempts to send a request, unless the receiver says how long to wait."""

_MAX_WAIT = 60.0
"""The most seconds that a receiver may ask to wait."""

_BUSY = frozenset(
    {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
"""What a receiver answers if it may take the same request later."""

_FAILURES = (OSError, http.client.HTTPException, ValueError)
"""Errors of a request that was not answered; the last one is for names that no host or proxy can have."""

_TIMEOUT = "10000"
_MAX_ANSWER = 1 << 16
_MAX_REASON = 200
_MAX_DIGITS = 20
_MAX_TIMEOUT_DIGITS = 9  # eleven days

_HEADER_NAME = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[ -~\xa0-\xff]*")
_OF_BODY = frozenset({"content-type", "content-length", "content-encoding", "transfer-encoding"})


class DeliveryError(FxtioError):
    """An error: a receiver did not take all spans."""


class _Answer(NamedTuple):
    """Holds an answer of a receiver: status, its meaning, how long to wait, and the first bytes of the body."""

    status: int
    reason: str
    retry_after: str | None
    body: bytes

    @property
    def text(self) -> str:
        """The status, and why, as the receiver says it."""
        said = _decoded(self.body).get("message")
        return f"{self.status} {self.reason}" + (f": {said}" if isinstance(said, str) and said else "")


class Receiver:
    """A receiver of spans.

    Args:
        url: its URL; a path that does not end in `/v1/traces` is that of its parent.

    Attributes:
        name: the URL without a password and a query, which may have a key, for messages.

    Raises:
        FormatError: the URL or an environment variable makes no sense.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _no_receiver(url) from None
        if not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
            raise _no_receiver(url)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        path = parts.path.rstrip("/")
        whole = parts._replace(
            netloc=host if port is None else f"{host}:{port}",
            path=path if path.endswith(PATH) else path + PATH,
            fragment="",
        )
        self._url = whole.geturl()
        self.name = whole._replace(query="").geturl()
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": "fxtio",
            **_authorization(parts),
            **_headers(),
        }
        self._compresses = _setting("COMPRESSION") == "gzip"
        self._timeout = _timeout()
        self._opener = urllib.request.build_opener(_AnyStatus)

    def send(self, file: BinaryIO, tell: Callable[[int, int], object] | None = None) -> None:
        """Send each line in a request of its own, again if the receiver is busy or does not answer.

        If it cannot be reached at the first request, that is an error at once: its address is more likely wrong.

        Args:
            file: OTLP JSON lines; it is read from its start.
            tell: called with the number of bytes that were taken so far, and that of all.

        Raises:
            DeliveryError: it did not take all spans; it may have taken some.
        """
        taken, rejected, reason = 0, 0, ""
        size, sent = file.seek(0, os.SEEK_END), 0
        file.seek(0)
        for line in file:
            if tell is not None:
                tell(sent, size)
            try:
                answer = self._take(line, is_first=not taken)
            except _FAILURES as error:
                before = f" after {counted(taken, 'request')}" if taken else ""
                raise DeliveryError(f"{self.name} did not take the spans{before}: {_reason_of(error)}") from None
            taken, sent = taken + 1, sent + len(line)
            count, message = _rejected(answer)
            rejected, reason = rejected + count, reason or message
        if rejected:
            raise DeliveryError(f"{self.name} rejected {counted(rejected, 'span')}: {reason or 'it does not say why'}")

    def _take(self, body: bytes, *, is_first: bool) -> bytes:
        """Send a request until it is taken, and return the answer.

        Raises:
            OSError, HTTPException, ValueError: it was not.
        """
        waits = iter(WAITS)
        while True:
            wait = next(waits, None)
            try:
                answer = self._post(body)
            except _FAILURES:
                if is_first or wait is None:
                    raise
            else:
                if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return answer.body
                if answer.status not in _BUSY or wait is None:
                    raise OSError(answer.text)
                wait = _asked_wait(answer.retry_after, wait)
            time.sleep(wait)

    def _post(self, body: bytes) -> _Answer:
        """Send a request once, and return the answer.

        This ends in time, whatever the receiver does: a thread talks to it, which is left alone if that takes longer.
        A limit for each single read would never be reached by an answer that comes byte by byte.
        """
        headers = {**self._headers, "Content-Encoding": "gzip"} if self._compresses else self._headers
        data = gzip.compress(body, 1) if self._compresses else body
        request = urllib.request.Request(self._url, data, headers, method="POST")  # only HTTP, see above
        answers: queue.SimpleQueue[_Answer | Exception] = queue.SimpleQueue()

        def talk() -> None:
            try:
                answers.put(self._answer(request))
            except _FAILURES as error:
                answers.put(error)

        threading.Thread(target=talk, daemon=True).start()
        try:
            answer = answers.get(timeout=self._timeout)
        except queue.Empty:
            raise TimeoutError(f"there is no answer within {self._timeout:g} s") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, request: urllib.request.Request) -> _Answer:
        with self._opener.open(request, timeout=self._timeout) as answer:
            try:
                body = answer.read(_MAX_ANSWER)
            except _FAILURES:
                if answer.status < HTTPStatus.BAD_REQUEST:
                    raise
                body = b""  # the status says enough
            return _Answer(answer.status, answer.reason, answer.headers.get("Retry-After"), body)


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Takes every status as an answer, and follows no redirection, after which a request would have no body."""

    def http_response(self, request: Any, response: Any) -> Any:
        """Return the answer as it is."""
        return response

    https_response = http_response


def _no_receiver(url: str) -> FormatError:
    """Return the error for a text that is no URL.  It has no password and no key, so it quotes no reason."""
    shown = re.split("[?#]", re.sub(":.*@", "://", url, flags=re.DOTALL))[0]
    return FormatError(f"{printable(shown)} is not the URL of a receiver, such as http://127.0.0.1:4318")


def _authorization(parts: SplitResult) -> Mapping[str, str]:
    """Return the header for the user and the password of a URL."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _setting(name: str) -> str:
    """Return the text of an environment variable for spans, or else for all of OTLP; empty if there is none."""
    places = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next((text for text in map(os.environ.get, places) if text), "").strip()


def _headers() -> Mapping[str, str]:
    """Return the headers that the environment asks for, without those that describe the body.

    Their values are encoded as in URLs.
    """
    pairs = [each.partition("=") for each in _setting("HEADERS").split(",") if each.strip()]
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    if not all(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value) for name, value in headers.items()):
        raise FormatError("the headers of OTEL_EXPORTER_OTLP_HEADERS are not name=value,name=value")
    return {name: value for name, value in headers.items() if name.lower() not in _OF_BODY}


def _timeout() -> float:
    """Return the seconds after which a request has failed."""
    text = _setting("TIMEOUT") or _TIMEOUT
    if not text.isdecimal() or len(text) > _MAX_TIMEOUT_DIGITS or not int(text):
        shown = printable(text[:_MAX_REASON])
        raise FormatError(f"OTEL_EXPORTER_OTLP_TIMEOUT is {shown}, not a number of milliseconds")
    return int(text) / 1000


def _asked_wait(text: str | None, otherwise: float) -> float:
    """Return the seconds to wait by a header `Retry-After`, of which dates are not followed."""
    return min(float(text), _MAX_WAIT) if text and text.isdecimal() else otherwise


def _reason_of(error: Exception) -> str:
    """Return why a request failed."""
    reason = getattr(error, "reason", error)
    text = described(reason) if isinstance(reason, BaseException) else str(reason)
    return printable(text[:_MAX_REASON])


def _rejected(answer: bytes) -> tuple[int, str]:
    """Return how many spans of a request the receiver rejected, and why."""
    partial = _decoded(answer).get("partialSuccess")
    if not isinstance(partial, dict):
        return 0, ""
    count, message = str(partial.get("rejectedSpans", 0)), partial.get("errorMessage")
    is_number = count.isascii() and count.isdecimal() and len(count) < _MAX_DIGITS
    return int(count) if is_number else 0, printable(message[:_MAX_REASON]) if isinstance(message, str) else ""


def _decoded(answer: bytes) -> dict[str, Any]:
    """Return an answer that is an object of JSON, or nothing."""
    try:
        value = msgspec.json.decode(answer)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}
