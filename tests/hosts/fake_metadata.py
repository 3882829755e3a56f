"""EC2's metadata service (IMDSv2) as far as its notice goes, at 169.254.169.254 inside one host.

``fake_metadata.py FILE``, started in the host's network namespace: while FILE exists, the machine
is announced to end 120 s after the file was written. Prints "ready", then each request's status."""

import datetime
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler

ADDRESS = "169.254.169.254"
ACTION = "/latest/meta-data/spot/instance-action"


class Metadata(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        life = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path == "/latest/api/token" and life.isdigit():
            self.answer(200, "a-token")
        else:
            self.answer(400, "")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "a-token":
            self.answer(401, "")
        elif self.path == ACTION and os.path.exists(sys.argv[1]):
            end = os.path.getmtime(sys.argv[1]) + 120
            time = datetime.datetime.fromtimestamp(end, datetime.UTC)
            self.answer(200, f'{{"action": "terminate", "time": "{time:%Y-%m-%dT%H:%M:%SZ}"}}')
        else:
            self.answer(404, "")

    def answer(self, status: int, text: str) -> None:
        print(self.command, status, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


with Server((ADDRESS, 80), Metadata) as server:
    print("ready", flush=True)
    server.serve_forever()
