"""A package index of one package, spoken to directly or as to a proxy: the only thing that some
nodes reach. ``package_mirror.py ADDRESS``: prints the port, then each request's target."""

import hashlib
import io
import socketserver
import sys
import zipfile
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

NAME, VERSION = "skyward-bed-marker", "1.4"
WHEEL = f"skyward_bed_marker-{VERSION}-py3-none-any.whl"


def make_wheel() -> bytes:
    info = f"skyward_bed_marker-{VERSION}.dist-info"
    files = {
        "skyward_bed_marker.py": f'VERSION = "{VERSION}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: bed\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in [*files.items(), (f"{info}/RECORD", record)]:
            archive.writestr(name, text)
    return packed.getvalue()


class Index(BaseHTTPRequestHandler):
    wheel = make_wheel()

    def do_GET(self) -> None:
        print(self.path, flush=True)
        path = urlsplit(self.path).path
        if path == f"/simple/{NAME}/":
            digest = hashlib.sha256(self.wheel).hexdigest()
            link = f'<a href="/files/{WHEEL}#sha256={digest}">{WHEEL}</a>'
            self.answer(200, "text/html", f"<!DOCTYPE html><html><body>{link}</body></html>")
        elif path == f"/files/{WHEEL}":
            self.answer(200, "application/octet-stream", self.wheel)
        else:
            self.answer(404, "text/plain", "not here")

    def answer(self, status: int, kind: str, body: str | bytes) -> None:
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.send_error(405)

    def log_message(self, *_: object) -> None:
        pass


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


with Server((sys.argv[1], 0), Index) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
