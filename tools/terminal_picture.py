"""Pictures of what people see in a terminal, made from real runs.

A program runs on a terminal of 80 columns. Its screen is drawn as SVG at the end, or as soon as it
shows a given text.

    terminal_picture.py FOLDER    writes terminal.md and pictures/ into the folder of a site's pages
"""

import os
import pty
import select
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS = 80
LIMIT_S = 60

TWO_NODES = """
import skyward as sky

@sky.compute
def train(step):
    import time
    for epoch in range(3):
        print(f"step {step}, epoch {epoch}: loss {1 / (1 + epoch + step):.3f}")
        time.sleep(0.2)
    return step

with sky.ComputePool(nodes=2, display="DISPLAY") as pool:
    sky.gather(train(1), train(2), train(3)) >> pool
"""
FAILING = """
import skyward as sky

@sky.compute
def divide(a, b):
    return a / b

with sky.ComputePool(display="quiet") as pool:
    divide(1, 0) >> pool
"""


@dataclass(frozen=True)
class Scene:
    name: str
    caption: str
    program: str  # Python
    lines: int
    until: str = ""  # the picture is taken when the screen shows this


SCENES = (
    Scene("spinner", "While tasks run: what they print, above one line that says how things stand",
          TWO_NODES.replace("DISPLAY", "spinner"), 12, "epoch 2"),
    Scene("log", 'The same run with `display="log"`, and its receipt',
          TWO_NODES.replace("DISPLAY", "log"), 44),
    Scene("error", "A function that raises: its own type and traceback, and where it ran",
          FAILING, 26),
)  # fmt: skip


def run_scene(scene: Scene) -> pyte.Screen:
    """The screen that the program leaves, or the one that shows `until`."""
    screen = pyte.Screen(COLUMNS, scene.lines)
    stream = pyte.ByteStream(screen)
    folder = tempfile.TemporaryDirectory()
    Path(folder.name, "train.py").write_text(scene.program.lstrip())
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder.name)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        os.execvp("python", ["python", "train.py"])
    ioctl(terminal, TIOCSWINSZ, pack("HHHH", scene.lines, COLUMNS, 0, 0))
    deadline = time.monotonic() + LIMIT_S
    seen = False
    while not seen:
        if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"the scene '{scene.name}' took more than {LIMIT_S} s")
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
        if not data:
            break
        stream.feed(data)
        seen = bool(scene.until) and any(scene.until in line for line in screen.display)
    if seen:
        os.kill(child, signal.SIGINT)
        drain(terminal)
    os.waitpid(child, 0)
    os.close(terminal)
    folder.cleanup()
    if scene.until and not seen:
        raise ValueError(f"the scene '{scene.name}' never showed '{scene.until}'")
    return screen


def drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            continue
    except OSError:
        return


def text_of(screen: pyte.Screen) -> Text:
    """The screen with its colours, without the empty lines at its end."""
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    text = Text()
    for row, line in enumerate(lines):
        for column, character in enumerate(line):
            cell = screen.buffer[row][column]
            colour = None if cell.fg == "default" else colour_of(cell.fg)
            text.append(character, Style(color=colour, bold=cell.bold, underline=cell.underscore))
        text.append("\n")
    return text


def colour_of(name: str) -> str:
    if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name.lower()):
        return f"#{name}"
    return {"brown": "yellow"}.get(name, name.replace("bright", "bright_"))


def write_page(folder: Path) -> None:
    """Draws every scene, and the page that shows them."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    lines = [
        "# In the terminal",
        "",
        "Each picture is a real run on this computer's own nodes.",
        "",
    ]
    for scene in SCENES:
        with open(os.devnull, "w") as nowhere:
            console = Console(record=True, width=COLUMNS, file=nowhere)
            console.print(text_of(run_scene(scene)))
            console.save_svg(str(folder / "pictures" / f"{scene.name}.svg"), title="skyward")
        lines += [f"## {scene.caption}", "", f"![{scene.caption}](pictures/{scene.name}.svg)", ""]
    (folder / "terminal.md").write_text("\n".join(lines))


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
