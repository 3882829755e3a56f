"""The sheets of providers: what a wrong one is answered with, and where a new one appears."""

import tomllib

import providers
import pytest

GOOD = """
name = "moon"
title = "Moon"
label = "Moon"
page = "verda"
task = "rent machines on the moon"
heading = "Moon"
machines = "rented"
summary = "Machines on the moon."

[settings.crater]
kind = "text"
meaning = "Which [crater](#craters)"
unset = "the nearest"

[settings.api_key]
kind = "secret"
meaning = "Your key"

[settings.flags]
kind = "lines"
meaning = "More flags"

[settings.labels]
kind = "pairs"
cpp = "label_pairs"
harmless = true
meaning = "What the rocks are called"

[settings.side]
kind = "choice"
default = "near"
choices = ["near", "far"]
harmless = true
meaning = "Which side"
""" + "\n".join(["[features]", *(f'"{name}" = "yes"' for name in providers.FEATURES)])


def sheet_of(text):
    return providers.Sheet(providers.ROOT / "moon/sheet.toml", tomllib.loads(text))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('label = "Moon"', 'lable = "Moon"', "unknown key lable"),
        ('label = "Moon"', "", "there is no label"),
        ('page = "verda"', 'page = "moon"', "there is no page docs/guide/moon.md"),
        ('machines = "rented"', 'machines = "lent"', "machines is one of rented, own"),
        ('kind = "text"', 'kind = "texts"', "settings.crater: unknown kind texts"),
        ('meaning = "Your key"', "", "settings.api_key: there is no meaning"),
        ('kind = "secret"', 'kind = "secret"\nharmless = true', "a secret is never harmless"),
        ('default = "near"', 'default = "dark"', "the default is none of the choices"),
        ('choices = ["near", "far"]', "", "a choice has choices"),
        ('kind = "text"', 'kind = "whole"\ndefault = 1.5', "the default of a whole must be int"),
        ('"Volumes" = "yes"', '"Volume" = "yes"', "features has exactly"),
    ],
)
def test_a_wrong_sheet_is_refused(old, new, problem):
    assert sheet_of(GOOD).problems() == []
    assert GOOD.count(old) == 1
    (found,) = sheet_of(GOOD.replace(old, new)).problems()[:1]
    assert problem in found


def test_a_new_sheet_is_all_that_a_provider_needs():
    moon = sheet_of(GOOD)
    sheets = [*providers.read(), moon]
    table = providers.settings_table(sheets)
    assert '{"side", choice, anybody, "near", "near|far"}' in table
    assert '{"api_key", secret, trusted, "", ""}' in table
    assert '{"moon", "Moon", "Moon", kMoon, true}' in table
    assert '{"labels", list, anybody, "", ""}' in table
    header = providers.cpp_header(moon)
    assert "  std::optional<std::map<std::string, std::string>> label_pairs{};\n" in header
    assert 'put(spec, "labels", label_pairs);' in providers.cpp_source(sheets)
    assert "  // Which crater. Default: the nearest.\n" in header
    assert "  std::optional<std::vector<std::string>> flags{};\n" in header
    assert "put(spec, \"flags\", joined(flags, '\\n'));" in providers.cpp_source(sheets)
    python = providers.python_classes(sheets)
    assert 'side: Literal["near", "far"] = "near"' in python
    assert "api_key: str | None = field(default=None, repr=False)" in python
    assert "labels: dict[str, str] | tuple[str, ...] = ()" in python
    assert "flags: tuple[str, ...] = field(default=(), metadata=LINES)" in python
    package = (providers.ROOT / "python/skyward/__init__.py").read_text()
    package = providers.package_text(package, sheets)
    assert "    from skyward.providers.clouds import Moon as Moon\n" in package
    assert '"providers.clouds": "AWS Container DigitalOcean Kubernetes Moon ' in package
    events = (providers.ROOT / "python/skyward/events.py").read_text()
    assert '    Moon = "Moon"\n' in providers.events_text(events, sheets)
    assert "| `crater` | the nearest | Which [crater](#craters) |" in providers.parameters_table(
        moon
    )
    guide = (providers.GUIDE / "README.md").read_text()
    guide = providers.page_text(providers.GUIDE / "README.md", guide, sheets)
    assert "| rent machines on the moon | [Moon](verda.md) |" in guide
    assert "[`sky.Moon`](verda.md#parameters)" in guide


def test_a_page_without_marks_says_what_to_write():
    page = providers.GUIDE / "verda.md"
    with pytest.raises(providers.SheetError, match="under ## Parameters, write"):
        providers.page_text(page, "# Verda\n\n## Parameters\n", providers.read())
