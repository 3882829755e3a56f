"""Packages from a private index, which asks for a name and a password."""

import base64
import functools
import http.server
import threading

import pytest
from bootstrap_test import wheel

import skyward as sky

NAME, PASSWORD = "reader", "CANARY-81f0"


class Index(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        right = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
        self.server.asked.append(self.path)
        if self.headers.get("Authorization") == f"Basic {right}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="packages"')
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def index(tmp_path):
    packages = tmp_path / "index" / "simple" / "skyward-test-own"
    packages.mkdir(parents=True)
    wheel(packages, "skyward_test_own", "NUMBER = 7\n")
    root = str(tmp_path / "index")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Index, directory=root)
    )
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    for name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def address_of(index):
    return f"http://{NAME}:{PASSWORD}@127.0.0.1:{index.server_port}/simple"


def open_pool(index, packages, told):
    image = sky.Image(pip=packages, pip_extra_index_url=address_of(index))
    return sky.ComputePool(image=image, display="quiet", on_event=told.append)


def files_with(secret, folder):
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


def make_number():
    """A function that travels by value: nodes do not have this module."""

    def number():
        import skyward_test_own

        return skyward_test_own.NUMBER

    return number


def test_an_index_serves_its_own_packages_alone(index, home):
    pinned = sky.PipIndex(address_of(index), ["Skyward_Test.Own"])
    assert PASSWORD not in repr(pinned)
    image = sky.Image(pip=["skyward-test-own>=0"], pip_indexes=[pinned])
    told = []
    with sky.ComputePool(image=image, display="quiet", on_event=told.append) as pool:
        assert sky.compute(make_number())() >> pool == 7
    packages = {path.split("/")[2] for path in index.asked}
    assert packages == {"skyward-test-own"}  # cloudpickle, above all, comes from elsewhere
    assert told and PASSWORD not in repr(told)
    assert files_with(PASSWORD, home) == []


def test_an_index_lists_only_what_pip_installs():
    image = sky.Image(pip=["numpy"], pip_indexes=[sky.PipIndex("https://host/simple", ["torch"])])
    with pytest.raises(sky.ConfigurationError, match='lists "torch", but Image.pip=…. does not'):
        sky.ComputePool(image=image, display="quiet").__enter__()
    with pytest.raises(sky.ConfigurationError, match="write pip_indexes="):
        sky.Image(pip_indexes=["https://host/simple"])


def test_a_package_comes_from_it_and_the_password_goes_nowhere_else(index, home):
    told = []
    with open_pool(index, ["skyward-test-own"], told) as pool:
        assert sky.compute(make_number())() >> pool == 7
    assert "/simple/skyward-test-own/" in index.asked
    assert told and PASSWORD not in repr(told)
    assert files_with(PASSWORD, home) == []


def test_a_package_that_it_has_not_is_told_without_the_password(index, home, capfd):
    told = []
    with pytest.raises(sky.ProvisioningError) as caught:
        with open_pool(index, ["skyward-test-nowhere"], told):
            pass
    assert "skyward-test-nowhere" in str(caught.value)
    assert PASSWORD not in str(caught.value) + repr(told) + "".join(capfd.readouterr())
    assert files_with(PASSWORD, home) == []
