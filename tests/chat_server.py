"""A real HTTP server on loopback that speaks the chat-completions protocol, failures included."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Headers of a reply that trickles.
TRICKLED = 100


@dataclass(frozen=True)
class Reply:
    """Status and body, after so many seconds, the body in pieces with a pause behind each."""

    status: int = 200
    body: bytes = b""
    delay_s: float = 0.0
    pieces: int = 1
    pause_s: float = 0.0
    cut: bool = False
    chunked: bool = False
    header: tuple[str, str] = ("X-Header", "x")
    trickle_s: float = 0.0


def answer(content: str | None, finish: str = "stop") -> Reply:
    """A completion with this text."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content}}
    whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice]}
    return Reply(body=json.dumps(whole).encode())


def error(status: int, message: str, code: str | None = None) -> Reply:
    """An error as OpenAI's servers put it."""
    return Reply(status, json.dumps({"error": {"message": message, "type": "x", "code": code, "param": None}}).encode())


@dataclass
class Chat:
    """The server's address, and the requests that it has had."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [request["messages"][-1]["content"] for request in self.requests]


@contextmanager
def serving(replies: Sequence[Reply]) -> Iterator[Chat]:
    """Serve these replies, one a request, the last one to all further requests."""
    chat = Chat("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            chat.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            chat.headers.append({name.lower(): value for name, value in self.headers.items()})
            chat.paths.append(self.path)
            reply = replies[min(len(chat.requests), len(replies)) - 1]
            time.sleep(reply.delay_s)
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header(*reply.header)
                for number in range(TRICKLED if reply.trickle_s else 0):
                    self.send_header(f"X-{number}", "x")
                    self.flush_headers()
                    time.sleep(reply.trickle_s)
                if reply.chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                else:
                    self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                step = -(-len(reply.body) // reply.pieces) or 1
                sent = reply.body[: len(reply.body) // 2] if reply.cut else reply.body
                for start in range(0, len(sent), step):
                    piece = sent[start : start + step]
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if reply.chunked else piece)
                    self.wfile.flush()
                    time.sleep(reply.pause_s)
                if reply.chunked and not reply.cut:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                pass  # the client has hung up

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()


def closed_port() -> str:
    """The address of an endpoint where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/v1"
