"""Runs the code of the documentation, so that no page shows what does not work.

Every fenced block of README.md and docs/**/*.md is one of:
  python, cpp        run as a program of its own; its exit status must be 0
  bash, console      lines `./dev VERB …` (with or without "$ "), whose verbs must exist
  json, toml         must parse
  cmake              a project that uses Skyward; tests/outside builds it
  text, output       read by people only, unless a mark makes it an expectation
A comment directly above a block changes how it is taken:
  <!-- test: name=NAME -->          blocks of one page with one name are one program, in order
  <!-- test: output=NAME -->        what program NAME prints; a line ... stands for any lines
  <!-- test: raises=NAME -->        the program ends with this exception
  <!-- test: compile="REASON" -->   compiled; in Python run until it opens its first pool, whose
                                    parameters are checked; not further, because of REASON
There is no mark to leave a block out, and a language not listed here is an error.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN_SECONDS = 150
LANGUAGES = frozenset("python cpp cmake bash console json toml text output".split())
MARKS = frozenset("name output raises compile".split())


class DocsError(Exception):
    """A page is written in a way that cannot be checked, or its code does not do what it says."""


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]

    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass
class Program:
    page: str
    line: int
    language: str
    name: str
    text: str = ""
    raises: str = ""
    compile_only: bool = False
    outputs: list[str] = field(default_factory=list)

    def title(self) -> str:
        return f"{self.page}:{self.line}:{self.language}" + (f":{self.name}" if self.name else "")


UNTIL_A_POOL_OPENS = """
import runpy, sys, skyward
def stop(*_): raise SystemExit(0)
skyward.ComputePool._open = stop
runpy.run_path(sys.argv[1], run_name="__main__")
"""

MARK_LINE = re.compile(r"<!--\s*test:\s*(.*?)\s*-->\s*$")
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+-]*)\s*$")


def read_marks(text: str, place: str) -> dict[str, str]:
    marks = {}
    for word in shlex.split(text):
        key, equals, value = word.partition("=")
        if key not in MARKS or not equals or not value:
            raise DocsError(f"{place}: unknown mark '{word}'; there are {', '.join(sorted(MARKS))}")
        marks[key] = value
    return marks


def find_blocks(page: str, text: str) -> list[Block]:
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        mark = MARK_LINE.match(line.strip())
        if mark:
            marks = read_marks(mark[1], f"{page}:{number}")
            continue
        fence = FENCE.match(line)
        if fence is None:
            if marks and line.strip():
                raise DocsError(f"{page}:{number}: a test mark must stand directly above a block")
            continue
        indent, ticks, language = fence.groups()
        first = number
        body = []
        while number < len(lines) and lines[number].strip() != ticks:
            body.append(lines[number].removeprefix(indent))
            number += 1
        if number == len(lines):
            raise DocsError(f"{page}:{first}: this block has no end")
        number += 1
        place = f"{page}:{first}"
        if language not in LANGUAGES:
            known = ", ".join(sorted(LANGUAGES))
            raise DocsError(f"{place}: a block needs a language out of: {known}")
        blocks.append(Block(page, first, language, "\n".join(body) + "\n", marks))
        marks = {}
    return blocks


def programs_of(page: str, text: str) -> list[Program]:
    """The page's programs and what is expected of them; the rest of it is checked at once."""
    programs: dict[str, Program] = {}
    verbs = known_verbs((ROOT / "dev").read_text())
    for block in find_blocks(page, text):
        name = block.marks.get("name", "")
        if block.language in ("python", "cpp"):
            key = name or block.place()
            program = programs.setdefault(key, Program(page, block.line, block.language, name))
            if program.language != block.language:
                raise DocsError(f"{block.place()}: '{name}' is a {program.language} program")
            program.text += block.text
            program.raises = block.marks.get("raises", program.raises)
            program.compile_only |= "compile" in block.marks
        elif block.language in ("bash", "console"):
            check_commands(block, verbs)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        if "output" in block.marks:
            wanted = programs.get(block.marks["output"])
            if wanted is None:
                raise DocsError(f"{block.place()}: no program '{block.marks['output']}' above")
            wanted.outputs.append(block.text)
    return list(programs.values())


def known_verbs(dev: str) -> frozenset[str]:
    return frozenset(re.findall(r"^verb_([a-z-]+)\(\)", dev, re.MULTILINE))


def check_commands(block: Block, verbs: frozenset[str]) -> None:
    for line in block.text.splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue  # what the command prints
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not words:
            continue
        if words[0] != "./dev" or len(words) < 2:
            raise DocsError(f"{block.place()}: only ./dev lines can be checked, not: {line}")
        if words[1] not in verbs:
            raise DocsError(f"{block.place()}: ./dev has no verb '{words[1]}'")
        scripts = [word for word in words[2:] if word.endswith((".py", ".cc"))]
        for script in scripts:
            if not (ROOT / script).exists():
                raise DocsError(f"{block.place()}: there is no file {script}")


def matches(wanted: str, printed: str) -> bool:
    parts = [re.escape(line.rstrip()) for line in wanted.strip().splitlines()]
    pattern = "\n".join("(?s:.*)" if part == re.escape("...") else part for part in parts)
    plain = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, plain) is not None


def compile_cpp(source: Path, program: Path) -> None:
    """With the flags of the built face, linked to all rooms."""
    build = ROOT / "build" / "release"
    entries = json.loads((build / "compile_commands.json").read_text())
    face = next((e for e in entries if "/skyward_face.dir/" in e["command"]), None)
    if face is None:
        raise DocsError("build/release does not compile skyward_face: run ./dev build")
    flags = [
        word
        for word in shlex.split(face["command"])
        if word.startswith(("-I", "-D", "-std", "-isystem", "-f", "-W"))
    ]
    libraries = [str(path) for path in sorted(build.glob("skyward/**/libskyward_*.a"))]
    command = ["g++", *flags, str(source), "-o", str(program)]
    command += ["-Wl,--start-group", *libraries, "-Wl,--end-group", "-lsqlite3", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DocsError(f"it does not compile:\n{done.stderr}")


def run_program(program: Program) -> None:
    """Raises DocsError, with all that was printed, when the program does not do as it says."""
    with tempfile.TemporaryDirectory() as folder:
        if program.language == "python":
            source = Path(folder) / "example.py"
            source.write_text(program.text)
            try:
                compile(program.text, program.title(), "exec")
            except SyntaxError as error:
                raise DocsError(f"{program.title()}: {error}") from error
            until = ["-c", UNTIL_A_POOL_OPENS] if program.compile_only else []
            command = [sys.executable, *until, str(source)]
        else:
            source = Path(folder) / "example.cc"
            source.write_text(program.text)
            command = [str(Path(folder) / "example")]
            try:
                compile_cpp(source, Path(command[0]))
            except DocsError as error:
                raise DocsError(f"{program.title()}: {error}") from error
        if program.compile_only and program.language == "cpp":
            return
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise DocsError(
                f"{program.title()}: not done after {RUN_SECONDS} s\n{late.output}\n{late.stderr}"
            ) from late
    judge(program, done.returncode, done.stdout, done.stderr)


def judge(program: Program, status: int, printed: str, errors: str) -> None:
    all_of_it = f"--- stdout\n{printed}\n--- stderr\n{errors}"
    if program.raises:
        if status == 0 or program.raises not in errors:
            raise DocsError(f"{program.title()}: did not raise {program.raises}\n{all_of_it}")
    elif status != 0:
        raise DocsError(f"{program.title()}: ended with status {status}\n{all_of_it}")
    for wanted in program.outputs:
        if not matches(wanted, printed):
            raise DocsError(f"{program.title()}: should print\n{wanted}\n{all_of_it}")


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


def linked_pages() -> list[Path]:
    """Every page whose links are checked: the documentation, what is new, and the rooms' pages."""
    folders = ("changes", "examples", "python", "sim", "skyward", "bench")
    return pages() + [page for name in folders for page in sorted((ROOT / name).rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """What a link may name behind `#`: each heading in small letters, `-` for a space, no signs."""
    titles = HEADING.findall(CODE.sub("", text))
    return {re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links() -> list[str]:
    """`page: target` of each relative link without a file, or without a heading, behind it."""
    dead = []
    for page in linked_pages():
        for target, anchor in LINK.findall(CODE.sub("", page.read_text())):
            file = page.parent / target if target else page
            if "://" in target:
                continue
            if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
                dead.append(f"{page.relative_to(ROOT)}: {target}#{anchor}".rstrip("#"))
    return dead


def all_programs() -> list[Program]:
    return [
        program
        for page in pages()
        for program in programs_of(str(page.relative_to(ROOT)), page.read_text())
    ]


def main() -> int:
    failed = 0
    programs = [p for p in all_programs() if not sys.argv[1:] or p.page in sys.argv[1:]]
    for program in programs:
        try:
            run_program(program)
            print(f"ok {program.title()}")
        except DocsError as error:
            failed += 1
            print(f"FAILED {error}")
    print(f"{len(programs) - failed} passed, {failed} failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
