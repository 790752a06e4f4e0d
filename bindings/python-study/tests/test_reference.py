"""The reference in the book: it leaves out nothing that the package offers."""

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path

import nearhead
import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture(scope="module")
def reference():
    """What makes it; it reads the sources, so it is held against what the built package offers."""
    for module in ("griffe", "griffe_sphinx"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"there is no {module}; scripts/install-python-tests gets it")
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("python_reference")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def pages(reference):
    """Each page by the module that it is of."""
    return {module.path: reference.page(module) for module in reference.modules(reference.package())}


def public_modules():
    """The package, and the modules below it that have names for people."""
    yield nearhead
    for found in pkgutil.walk_packages(nearhead.__path__, "nearhead."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            module = importlib.import_module(found.name)
            if hasattr(module, "__all__"):
                yield module


def offered_by(kind):
    """What a class of the package's own has for people."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("nearhead")]
    return {name for base in own for name in [*vars(base), *getattr(base, "__annotations__", {})] if not name.startswith("_")}


def test_every_public_name_has_its_entry(pages):
    modules = list(public_modules())
    assert {module.__name__ for module in modules} == set(pages)
    missing = []
    for module in modules:
        page = pages[module.__name__]
        for name in module.__all__:
            thing = getattr(module, name)
            if type(thing) is type(nearhead):
                assert thing.__name__ in pages, name
                continue
            if f"## `{name}` {{#{name}}}" not in page:
                missing.append(f"{module.__name__}.{name}")
            members = offered_by(thing) if isinstance(thing, type) else set()
            for member in members:
                anchors = (f'<a id="{name}.{member}"></a>', f"{{#{name}.{member}}}")
                if not any(anchor in page for anchor in anchors):
                    missing.append(f"{module.__name__}.{name}.{member}")
    assert missing == []


def test_every_entry_says_something(pages):
    for path, page in pages.items():
        silent = [line for line in page.splitlines() if line.startswith("| [`") and line.endswith("|  |")]
        assert silent == [], path


def test_links_of_a_page_lead_to_its_entries(pages):
    for path, page in pages.items():
        for line in page.splitlines():
            if line.startswith("| [`"):
                anchor = line.split("](#")[1].split(")")[0]
                assert f"{{#{anchor}}}" in page, f"{path}: {anchor}"


def test_a_signature_is_as_it_is_called(reference, pages):
    page = pages["nearhead"]
    for line in (
        "def figures(\n    *names: str,\n    effort: str = 'full',",
        "class Disk(\n    name_or_path: Union[str, os.PathLike[str]],\n    *,\n    cache: Optional[str] = None,",
        "@staticmethod\ndef raid0(members: Sequence[Union[str, 'Disk']], *, chunk: str = '64k') -> 'Disk'",
        "def percentile_ms(percent: float) -> float",
    ):
        assert line in page, line
    # What only calls give is not shown as something to make, and nothing private is.
    assert "```python\nclass Result\n```" in page and " _requests" not in page and "Outcome" not in page


def test_the_pages_and_their_chapters_are_written(reference, monkeypatch, tmp_path, capsys, pages):
    monkeypatch.setattr(sys, "argv", ["python_reference.py", str(tmp_path / "python")])
    reference.main()
    chapters = capsys.readouterr().out.splitlines()
    assert chapters == [f"  - [{path}](docs/python/{path}.md)" for path in pages]
    assert {path.name for path in (tmp_path / "python").iterdir()} == {f"{path}.md" for path in pages}
