"""The house rules, as tests: checks every file of the repository; `--tighten` lowers the ratchets.

Each rule looks at one file's text and yields findings; twin_types looks at all files.
Two data files stand beside it:
  ratchets.json  numbers that may only fall: rule → "file" or "file:function" → the size it may
                 still have. An entry for what is within the general limit by now fails.
  allowed.toml   single exceptions with a reason; one that nothing needs any more fails too.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

LIMITS = {"header-lines": 200, "source-lines": 1000, "function-lines": 70, "long-lines": 0}
SOURCE_WARN_LINES = 600
MAX_COLUMNS = 100
MAX_HEADER_COLUMNS = 145  # beyond this no ratchet helps
README_LINES = 25
FILE_BYTES = 512 * 1024
BANNED_WORDS = frozenset(
    "manager helper helpers util utils common misc service handler handlers context".split()
)
TODO_KINDS = "soon|perf|test|port|cleanup"
# Phrases that readers stumble over, and what to write instead; docs/style.md has the glossary.
PHRASES = [
    (r"\b(?:is|are|be|been|was|were) had\b", "provisioned, available"),
    (r"\b(?:give|gives|giving|given|gave)(?: \w+){0,3} back\b", "release, terminate, return"),
    (r"\btaken (?:back|away)\b", "preempted"),
    (r"\bnobody (?:took|takes)\b", "say who drops what, and why"),
    (r"\b(?:is|are) no more\b(?! than)", "is gone, has exited"),
    (r"\b(?:stand|stands|stood) in for\b", "replace"),
    (r"\bone's own\b", "your own, or name the owner"),
    (r"\bpa(?:y|ys|id) no heed\b", "ignore"),
    (r"\banew\b", "again"),
    (r"\b(?:comes?|came) to nothing\b", "fail"),
    (r"\blooks? whether\b", "check whether"),
    (r"\bin the place of\b", "instead of"),
    (r"\btells? of\b", "report"),
    (r"\bwho(?:ever)? comes (?:again|back)\b", "after a reconnect, on the second call"),
    (r"\b(?:is|are|be|was|were) given up\b", "give up on, count as lost"),
    (r"\bmade again\b", "retried, re-established"),
]


@dataclass(frozen=True)
class Finding:
    rule: str
    file: str
    line: int
    text: str
    subject: str = ""  # what an allowed.toml entry names besides the file: a word, a call
    size: int = 0  # of a ratcheted thing
    name: str = ""  # its function

    def key(self) -> str:
        return f"{self.file}:{self.name}" if self.name else self.file

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


Rule = Callable[[str, str], Iterator[Finding]]
RULES: list[tuple[tuple[str, ...], Rule]] = []

CPP = ("*.h", "*.cc")
PYTHON = ("*.py",)
LIBRARY = ("skyward/*.h", "skyward/*.cc", "sim/*.h", "sim/*.cc", "python/src/*")


def rule(*patterns: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.append((patterns, function))
        return function

    return register


def blank_out(text: str) -> str:
    """C++ text with comments and literals blanked: same length, same line ends."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )
    return token.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


# ---- sizes --------------------------------------------------------------------------------------


@rule("*.h")
def header_lines(file: str, text: str) -> Iterator[Finding]:
    lines = text.count("\n")
    yield Finding("header-lines", file, 1, f"{lines} lines, at most 200: split it", size=lines)


@rule("*.cc", "*.py", "dev")
def source_lines(file: str, text: str) -> Iterator[Finding]:
    lines = text.count("\n")
    yield Finding("source-lines", file, 1, f"{lines} lines, at most 1000: split it", size=lines)
    if lines > SOURCE_WARN_LINES:
        yield Finding(
            "warning", file, 1, f"{lines} lines: past {SOURCE_WARN_LINES}, think of a split"
        )


@rule(*CPP, *PYTHON)
def long_lines(file: str, text: str) -> Iterator[Finding]:
    long = [
        (number, len(line))
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ]
    for number, length in long:
        if length > MAX_HEADER_COLUMNS and "://" not in text.splitlines()[number - 1]:
            yield Finding("very-long-line", file, number, f"{length} columns")
    if long and file.endswith(".h"):
        yield Finding("warning", file, long[0][0], f"{len(long)} lines longer than {MAX_COLUMNS}")
    elif long:
        where = ", ".join(str(number) for number, _ in long[:8])
        yield Finding(
            "long-lines",
            file,
            long[0][0],
            f"{len(long)} lines longer than {MAX_COLUMNS} columns: {where}",
            size=len(long),
        )


FUNCTION_NAME = re.compile(r"([~\w:]+|operator\S+)\s*(?:<[^()]*>)?\s*\(")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$")


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, last line) of each function body at namespace or class level."""
    code = blank_out(text)
    code = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", lambda m: " " * len(m[0]), code)
    code = re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.M
    )
    opened: list[tuple[str, str, int]] = []  # kind, name, first line
    start = 0  # of the text that tells what the next brace opens
    depth_inside = 0
    for match in re.finditer(r"[{};]", code):
        sign, at = match.group(0), match.start()
        if depth_inside:
            depth_inside += {"{": 1, "}": -1, ";": 0}[sign]
            if not depth_inside:
                kind, name, first = opened.pop()
                if kind == "function":
                    yield name, first, line_of(code, at)
                    start = at + 1
            continue
        if sign == "{":
            head = code[start:at]
            named = FUNCTION_NAME.search(head)
            first = line_of(code, start + len(head) - len(head.lstrip()))
            if SCOPE.search(head) and not (named and not SCOPE.search(head[: named.start()])):
                opened.append(("scope", "", first))
                start = at + 1
            elif named:
                opened.append(("function", named.group(1), first))
                depth_inside = 1
            else:
                opened.append(("value", "", first))
                depth_inside = 1
        elif sign == "}":
            if opened:
                opened.pop()
            start = at + 1
        else:
            start = at + 1


@rule(*CPP)
def cpp_function_lines(file: str, text: str) -> Iterator[Finding]:
    for name, first, last in cpp_functions(text):
        lines = last - first + 1
        yield Finding(
            "function-lines",
            file,
            first,
            f"{name} has {lines} lines, at most 70",
            size=lines,
            name=name,
        )


@rule(*PYTHON)
def python_function_lines(file: str, text: str) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Finding(
                "function-lines",
                file,
                node.lineno,
                f"{node.name} has {lines} lines, at most 70",
                size=lines,
                name=node.name,
            )


@rule("skyward/*/README.md")
def readme_lines(file: str, text: str) -> Iterator[Finding]:
    if text.count("\n") > README_LINES:
        yield Finding("readme-lines", file, 1, f"a room's page has at most {README_LINES} lines")


# ---- one door to the world ----------------------------------------------------------------------

BANNED_CALLS = [
    (
        r"(?<!EventLoop)(?<!engine::EngineLoop)::now\s*\(\s*\)",
        "::now",
        "time is an argument, or io::EventLoop::now()",
    ),
    (r"\bsleep(?:_for|_until)?\s*\(", "sleep", "wait for an event with a deadline"),
    (r"\b(?:usleep|nanosleep)\s*\(", "sleep", "wait for an event with a deadline"),
    (
        r"\b(?:s?rand|random_device)\s*[({]|\brandom_device\b",
        "rand",
        "randomness comes from outside",
    ),
    (r"\b(?:secure_)?getenv\s*\(|\b(?:un)?setenv\s*\(", "getenv", "settings are arguments"),
    (r"(?<![\w.>])(?:::)?socket\s*\(", "socket", "connections come from io/"),
    (r"(?<![\w.>])(?:::)?v?fork\s*\(", "fork", "processes come from io/process.h"),
    (
        r"(?<![\w.>])(?:std::|::)?(?:system|popen)\s*\(",
        "system",
        "processes come from io/process.h",
    ),
]


@rule(*LIBRARY)
def banned_calls(file: str, text: str) -> Iterator[Finding]:
    if file.startswith("skyward/io/"):
        return
    code = blank_out(text)
    for pattern, subject, instead in BANNED_CALLS:
        for match in re.finditer(pattern, code):
            yield Finding(
                "banned-call",
                file,
                line_of(code, match.start()),
                f"{match.group(0).strip()}…): {instead}",
                subject=subject,
            )


@rule("python/tests/*.py", "tests/*.py")
def sleeping_tests(file: str, text: str) -> Iterator[Finding]:
    """A test waits for events. Code that is meant to be slow on a worker says so in its line."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\btime\.sleep\(", line) and "# on a worker" not in line:
            yield Finding(
                "sleeping-test",
                file,
                number,
                "wait for an event with a deadline; where the function under test is the slow one, "
                "say so: # on a worker",
                subject="sleep",
            )


@rule("skyward/*.h", "skyward/*.cc")
def printing_libraries(file: str, text: str) -> Iterator[Finding]:
    if file.endswith(("_test.cc", "main.cc")):
        return
    code = blank_out(text)
    for match in re.finditer(
        r"\bstd::(?:cout|cerr|clog)\b|(?<![\w:.])(?:std::)?printf\s*\(|\bputs\s*\("
        r"|\bfmt::print(?:ln)?\s*\(",  # which throws where nothing can be written
        code,
    ):
        yield Finding(
            "printing",
            file,
            line_of(code, match.start()),
            "a library returns what it has to say, or calls write_stderr_line()",
            subject="print",
        )


# ---- names and text -----------------------------------------------------------------------------

TYPE_NAME = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+([A-Za-z_]\w*)")


def words_of(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word.lower() for word in re.split(r"[_\W]+", spaced) if word]


def bad_word(name: str) -> str | None:
    """The banned word in a name. `Impl` alone is a class's hidden half; more than that is not."""
    words = words_of(name)
    for word in words:
        if word in BANNED_WORDS or (word == "impl" and len(words) > 1):
            return word
    return "Base" if len(words) > 1 and name.endswith("Base") else None


@rule(*CPP, *PYTHON)
def banned_names(file: str, text: str) -> Iterator[Finding]:
    word = bad_word(Path(file).stem)
    if word:
        yield Finding("banned-name", file, 1, f"'{word}' in a file name says nothing", subject=word)
    if file.endswith(".py"):
        names = [
            (node.name, node.lineno)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef)
        ]
    else:
        code = blank_out(text)
        names = [(match[1], line_of(code, match.start())) for match in TYPE_NAME.finditer(code)]
    for name, line in names:
        word = bad_word(name)
        if word:
            yield Finding(
                "banned-name", file, line, f"'{word}' in {name} says nothing", subject=name
            )


TYPE_DEFINITION = re.compile(
    r"^(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[\w+\]\]\s*)?"
    r"(\w+)(?:\s+final)?\s*(?::[^:;{][^;{]*)?\{",
    re.MULTILINE,
)


def twin_types(files: dict[str, str]) -> Iterator[Finding]:
    """Types at namespace scope, which begins a line, that have one name in different rooms."""
    defined: dict[str, dict[str, tuple[str, int]]] = {}  # name → room → file, line
    for file, text in sorted(files.items()):
        if not re.match(r"(?:skyward|sim)/.*\.(?:h|cc)$", file):
            continue
        if re.search(r"(?:_test\.cc|_fixture\.(?:h|cc)|_fuzz\.cc)$", file):
            continue
        code = blank_out(text)
        parts = Path(file).parts
        room = "/".join(parts[:2]) if parts[0] == "skyward" and len(parts) > 2 else parts[0]
        for match in TYPE_DEFINITION.finditer(code):
            place = (file, line_of(code, match.start()))
            defined.setdefault(match[1], {}).setdefault(room, place)
    for name, rooms in defined.items():
        first, *others = rooms.values()
        for file, line in others:
            yield Finding(
                "twin-type",
                file,
                line,
                f"{first[0]}:{first[1]} is in another room and has a type {name}, too",
                subject=name,
            )


@rule("*.h")
def header_opening(file: str, text: str) -> Iterator[Finding]:
    if not text.startswith("#pragma once\n"):
        yield Finding("header-opening", file, 1, "a header starts with #pragma once")
    elif not re.match(r"#pragma once\n\n//", text):
        yield Finding(
            "header-opening", file, 3, "after #pragma once, a paragraph that teaches the idea"
        )


@rule("*.md", *CPP, *PYTHON)
def foreign_phrases(file: str, text: str) -> Iterator[Finding]:
    for pattern, instead in PHRASES:
        # A comment may break the line between two words.
        for match in re.finditer(pattern.replace(" ", r"(?:\s|//|#)+"), text, re.IGNORECASE):
            phrase = " ".join(re.sub("//|#", " ", match[0]).split())
            yield Finding(
                "phrase",
                file,
                line_of(text, match.start()),
                f"'{phrase}': write {instead}",
                subject=phrase,
            )


@rule("*")
def leftovers(file: str, text: str) -> Iterator[Finding]:
    fixme, todo = "FIX" + "ME", "TO" + "DO"
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(rf"\b(?:{fixme}|XX" + r"X)\b", line):
            yield Finding("leftover", file, number, f"{fixme}: finish it first", subject=fixme)
        if re.search(rf"\b{todo}\b(?!\((?:{TODO_KINDS})\))", line) and file.endswith(
            (".h", ".cc", ".py")
        ):
            kinds = TODO_KINDS.replace("|", ", ")
            yield Finding(
                "leftover", file, number, f"{todo}(kind) with a kind of: {kinds}", subject=todo
            )
        if re.match(r"(?:<{7}|>{7}|\|{7})(?:\s|$)|={7}$", line):
            yield Finding("conflict", file, number, "a merge left its marker")
        if line != line.rstrip() and not file.endswith(".md"):
            yield Finding("trailing-space", file, number, "spaces at the end of the line")
        for path in re.findall(
            r"(?<![\w.$}/*~-])/(?:wo" + r"rk|ro" + r"ot|home/\w+)/[\w.-]*", line
        ):
            yield Finding(
                "machine-path", file, number, f"{path} exists on one machine", subject=path
            )


@rule("*")
def final_newline(file: str, text: str) -> Iterator[Finding]:
    if text and not text.endswith("\n"):
        yield Finding("final-newline", file, text.count("\n") + 1, "the file ends within a line")
    if text.endswith("\n\n"):
        yield Finding("final-newline", file, text.count("\n"), "the file ends with an empty line")


# ---- the whole ----------------------------------------------------------------------------------


def findings_of(file: str, text: str) -> Iterator[Finding]:
    for patterns, check in RULES:
        if any(fnmatch(file, pattern) for pattern in patterns):
            yield from check(file, text)


def judge(
    files: dict[str, str], ratchets: dict[str, dict[str, int]], allowed: list[dict[str, str]]
) -> tuple[list[str], list[str], dict[str, dict[str, int]]]:
    """(failures, warnings, the ratchets as tight as they can be)."""
    failures: list[str] = []
    warnings: list[str] = []
    measured: dict[tuple[str, str], int] = {}
    used: set[int] = set()
    found = [finding for file, text in sorted(files.items()) for finding in findings_of(file, text)]
    for finding in (*found, *twin_types(files)):
        if finding.rule == "warning":
            warnings.append(str(finding))
        elif finding.rule in LIMITS:
            if finding.size <= LIMITS[finding.rule]:
                continue
            key = (finding.rule, finding.key())
            measured[key] = max(measured.get(key, 0), finding.size)
            limit = ratchets.get(finding.rule, {}).get(finding.key())
            if limit is None or finding.size > limit:
                grown = f" (the ratchet stands at {limit})" if limit is not None else ""
                failures.append(f"{finding}{grown}")
        else:
            fitting = [
                index
                for index, entry in enumerate(allowed)
                if entry["rule"] == finding.rule
                and fnmatch(finding.file, entry["file"])
                and entry.get("subject", finding.subject) == finding.subject
            ]
            used |= set(fitting)
            if not fitting:
                failures.append(str(finding))
    tight: dict[str, dict[str, int]] = {}
    for ratchet, entries in ratchets.items():
        for key, limit in entries.items():
            size = measured.get((ratchet, key))
            if size is None:
                failures.append(
                    f"ratchets.json: {ratchet} {key} is within the limit: run with --tighten"
                )
            else:
                tight.setdefault(ratchet, {})[key] = min(size, limit)
    for index, entry in enumerate(allowed):
        if not entry.get("reason"):
            failures.append(f"allowed.toml: {entry['rule']} {entry['file']} has no reason")
        if index not in used:
            failures.append(
                f"allowed.toml: nothing in {entry['file']} needs {entry['rule']} "
                f"{entry.get('subject', '')}any more: remove the entry"
            )
    return failures, warnings, tight


def read_repository(root: Path) -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    files: dict[str, str] = {}
    for name in listed:
        path = root / name
        if not name or not path.is_file():
            continue
        data = path.read_bytes()
        if len(data) > FILE_BYTES:
            raise SystemExit(f"{name}: {len(data)} bytes; the repository holds sources, not data")
        if "/testdata/" not in name and b"\0" not in data:
            files[name] = data.decode("utf-8")
    return files


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    ratchets_path = root / "tools" / "ratchets.json"
    ratchets = json.loads(ratchets_path.read_text())
    allowed = tomllib.loads((root / "tools" / "allowed.toml").read_text()).get("allow", [])
    files = read_repository(root)
    failures, warnings, tight = judge(files, ratchets, allowed)
    if "--tighten" in sys.argv[1:]:
        ratchets_path.write_text(json.dumps(tight, indent=2, sort_keys=True) + "\n")
        failures, warnings, tight = judge(files, tight, allowed)
    for warning in warnings:
        print("warning:", warning)
    for failure in failures:
        print(failure)
    if not failures:
        print(f"tidy: {len(files)} files in order, {sum(map(len, tight.values()))} ratchets")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
