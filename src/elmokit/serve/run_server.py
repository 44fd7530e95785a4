"""Run the server until it is asked to stop: finishes what it accepted, then ends its engines."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from elmokit.errors import ConfigError
from elmokit.serve.api_errors import ApiError
from elmokit.serve.app import make_app
from elmokit.serve.service import Service
from elmokit.serve.settings import ServeSettings

BACKLOG = 2048  # connections that the system keeps until they are accepted


def run_server(settings: ServeSettings, announce: Callable[[str, bool], None], *, access_log: bool = False) -> None:
    """Serve. announce: called with the address when it is open (False), and again when the model is ready (True)."""
    _allow_many_connections()
    with _listen(settings.host, settings.port) as listening:
        service = Service(settings)
        config = uvicorn.Config(
            make_app(service),
            log_level="info" if access_log else "warning",
            access_log=access_log,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(settings.timeout) + 5,
            backlog=BACKLOG,
            ws="none",
        )
        address = _address(listening)
        announce(address, False)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            fault = runner.run(_serve(_Server(config), service, listening, lambda: announce(address, True)))
    if fault is not None:
        raise ConfigError(fault)


class _Server(uvicorn.Server):
    """uvicorn's server without re-raising the signal that ended it: a requested stop exits with 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end it, and put the old handlers back."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def _serve(server: _Server, service: Service, listening: socket.socket, ready: Callable[[], None]) -> str | None:
    """Serve to the end. Returns why the model could not be loaded, if so."""

    async def watch() -> None:
        try:
            await service.pool.wait_until_ready()
            ready()
        except ApiError:
            server.should_exit = True

    watching = asyncio.ensure_future(watch())
    await server.serve(sockets=[listening])
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    return service.pool.fault


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"--host {host}: expected a name or address of this machine ({error.strerror})") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = (
            f"--port {port} of {host} cannot be used ({error.strerror}); choose another --port, or 0 for a free one"
        )
        raise ConfigError(reason) from None
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _allow_many_connections() -> None:
    """Each connection is an open file, and the usual limit is 1,024."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
