"""Connections that keep the server waiting: each has a deadline, and there is room for a few of them only.

A browser sends a request within milliseconds. A connection that has not sent a whole one is waiting: for 20 seconds at
most, and when too many wait the one that has waited longest is closed. So any number of slow or silent clients leaves
room for the next one that does send a request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 20.0
"""Most seconds until the head of a request has come, and between two pieces of its body."""

MAX_WAITING = 200
"""Most connections from which a request, or the rest of one, is still to come."""


class SlowClients:
    """The connections of one server that keep it waiting, in the order in which they began to."""

    def __init__(self, most: int = MAX_WAITING, seconds: float = SECONDS) -> None:
        self.most, self.seconds = most, seconds
        self._waiting: OrderedDict[BoundedProtocol, asyncio.TimerHandle] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, one: BoundedProtocol, seconds: float | None = None) -> None:
        """Count a connection among those that wait, with a new deadline; make room for it."""
        self.end(one)
        self._waiting[one] = one.loop.call_later(self.seconds if seconds is None else seconds, self._close, one)
        while len(self._waiting) > self.most:
            self._close(next(iter(self._waiting)))

    def end(self, one: BoundedProtocol) -> None:
        """A connection has sent what it had to, or is gone."""
        if timer := self._waiting.pop(one, None):
            timer.cancel()

    def _close(self, one: BoundedProtocol) -> None:
        self.end(one)
        one.transport.abort()  # not closed: its buffer may never drain

    def protocol(self) -> type[BoundedProtocol]:
        """Return the class of connections that count here, as uvicorn wants it."""
        return type("Bounded", (BoundedProtocol,), {"slow": self})


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 by uvicorn, with deadlines on what the client sends."""

    slow: SlowClients

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.slow.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.slow.end(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
            self.slow.end(self)
        elif self.conn.their_state is h11.SEND_BODY:  # another piece of a body has come
            self.slow.begin(self)

    def on_response_complete(self) -> None:
        # Between two requests a connection waits as well, and may be closed for one that has something to say.
        if not self.transport.is_closing():
            self.slow.begin(self, self.timeout_keep_alive)
        super().on_response_complete()
