"""python_arrows.py against planted violations: each is found, and its neighbour passes."""

import pytest
import python_arrows


def findings(files: dict[str, str]) -> list[str]:
    given = {f"{python_arrows.PACKAGE}{path}": text for path, text in files.items()}
    return python_arrows.check(given)


@pytest.mark.parametrize(
    ("file", "text", "room"),
    [
        ("exceptions.py", "from skyward.events import Error\n", "events"),
        ("call/function.py", "from skyward.pool import ComputePool\n", "pool"),
        ("call/function.py", "def f():\n    from skyward.pool import ComputePool\n", "pool"),
        ("call/function.py", "if TYPE_CHECKING:\n    import skyward.pool\n", "pool"),
        ("call/function.py", "from ..pool import ComputePool\n", "pool"),
        ("call/function.py", "import_module('skyward.pool')\n", "pool"),
        ("call/function.py", "import_module(f'skyward.p{name}')\n", "pool"),
        ("task/data.py", "from skyward import _core\n", "extension"),
        ("worker/loop.py", "def f():\n    import skyward.exceptions\n", "exceptions"),
        ("pool/open_pool.py", "import skyward\n", "face"),
    ],
)
def test_a_forbidden_import_is_found(file: str, text: str, room: str) -> None:
    others = {"events.py": "", "pool/__init__.py": "", "exceptions.py": "", "__init__.py": ""}
    found = findings({**others, file: text})
    assert len(found) == 1 and found[0].endswith(f"not {room}"), found
    assert findings({**others, file: ""}) == []


@pytest.mark.parametrize(
    "text",
    [
        "from skyward.pool.b import x\n",
        "def f():\n    import skyward.pool.b\n",
        "if TYPE_CHECKING:\n    import skyward.pool.b\n",
    ],
)
def test_a_circle_is_found_however_it_is_hidden(text: str) -> None:
    back = "def g():\n    from skyward.pool import c\n"
    files = {"pool/a.py": text, "pool/b.py": back, "pool/c.py": "import skyward.pool.a\n"}
    assert findings(files) == [
        "these modules import each other: skyward.pool.a, skyward.pool.b, skyward.pool.c"
    ]
    assert findings({**files, "pool/c.py": ""}) == []


def test_a_circle_among_rooms_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_arrows.circular_rooms() == []
    back = ("base", "base/*", frozenset({"pool"}))
    monkeypatch.setattr(python_arrows, "ROOMS", [*python_arrows.ROOMS, back])
    assert len(python_arrows.circular_rooms()) == 1


def test_unknown_modules_and_files_are_found() -> None:
    assert "no module skyward.nowhere" in findings({"pool/a.py": "import skyward.nowhere\n"})[0]
    assert "lies in no room" in findings({"nowhere/a.py": ""})[0]
