"""EC2's metadata service (IMDSv2) as far as pools ask it, at 169.254.169.254 inside one host.

``fake_metadata.py NOTICE [ROLE]``, started in the host's network namespace: while the file NOTICE
exists, the machine is announced to end so many seconds after the file was written as it says (120
when it is empty). The file ROLE, when there is one, holds the credentials of the machine's role.
Prints "ready", then each request's status and path."""

import datetime
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

ADDRESS = "169.254.169.254"
ACTION = "/latest/meta-data/spot/instance-action"
ROLES = "/latest/meta-data/iam/security-credentials/"


class Metadata(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        life = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path == "/latest/api/token" and life.isdigit():
            self.answer(200, "a-token")
        else:
            self.answer(400, "")

    def do_GET(self) -> None:
        role = Path(sys.argv[2]) if len(sys.argv) > 2 else None
        if self.headers.get("X-aws-ec2-metadata-token") != "a-token":
            self.answer(401, "")
        elif self.path == ACTION and os.path.exists(sys.argv[1]):
            notice = Path(sys.argv[1])
            end = notice.stat().st_mtime + float(notice.read_text() or 120)
            time = datetime.datetime.fromtimestamp(end, datetime.UTC)
            self.answer(200, f'{{"action": "terminate", "time": "{time:%Y-%m-%dT%H:%M:%SZ}"}}')
        elif role and role.exists() and self.path == ROLES:
            self.answer(200, "a-role")
        elif role and role.exists() and self.path == ROLES + "a-role":
            self.answer(200, role.read_text())
        else:
            self.answer(404, "")

    def answer(self, status: int, text: str) -> None:
        print(self.command, status, self.path, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


with Server((ADDRESS, 80), Metadata) as server:
    print("ready", flush=True)
    server.serve_forever()
