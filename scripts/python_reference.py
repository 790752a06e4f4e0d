"""The reference of the Python package `nearhead` as pages of the book: signatures, types and docstrings of whatever is public.

    python3 scripts/python_reference.py FOLDER

writes a page for each public module to FOLDER, and to standard output the chapters of them for the book's list. Needs griffe and griffe-sphinx
(bindings/python-study/tests/requirements.txt). It reads sources and stubs, and runs none of them, so nothing has to be built.
"""

import argparse
import sys
from pathlib import Path

import griffe

SOURCES = Path(__file__).resolve().parents[1] / "bindings/python-study/python"
#: Classes that calls give, and no program makes.
GIVEN = {"Class", "Conformance", "Figure", "Latency", "Plan", "Result", "Sweep", "Validation", "Workload"}
#: A signature that is longer has a line for each parameter.
COLUMNS_MAX = 100


def package():
    """The package as its sources and stubs say."""
    # `#:` comments over constants and fields are their docstrings.
    extensions = griffe.load_extensions("griffe_sphinx")
    return griffe.load("nearhead", search_paths=[str(SOURCES)], extensions=extensions, resolve_aliases=True, allow_inspection=False)


def modules(module):
    """The module, and the public ones below it."""
    yield module
    for name, member in sorted(module.members.items()):
        if not member.is_alias and member.is_module and not name.startswith("_") and member.exports:
            yield from modules(member)


def target(thing):
    """What a name stands for."""
    return thing.final_target if thing.is_alias else thing


def words(thing):
    """Its docstring."""
    return thing.docstring.value.strip() if thing.docstring else ""


def about(thing):
    """The first sentence of its docstring, on one line."""
    text = " ".join(words(thing).split("\n\n")[0].split())
    return text.split(". ")[0].rstrip(".:")


def called(name, parameters, returns=None):
    """A call of it, with its types."""
    parts, is_keyword, is_positional = [], False, False
    for parameter in parameters:
        if parameter.name in ("self", "cls") or parameter.name.startswith("_"):
            continue
        if parameter.kind is griffe.ParameterKind.var_positional or parameter.kind is griffe.ParameterKind.var_keyword:
            stars = "*" if parameter.kind is griffe.ParameterKind.var_positional else "**"
            is_keyword = True
        else:
            stars = ""
            if parameter.kind is griffe.ParameterKind.positional_only:
                is_positional = True
            elif is_positional:
                parts.append("/")
                is_positional = False
            if parameter.kind is griffe.ParameterKind.keyword_only and not is_keyword:
                parts.append("*")
                is_keyword = True
        part = stars + parameter.name
        if parameter.annotation is not None:
            part += f": {parameter.annotation}"
        # Griffe notes what stars collect by default, too.
        if parameter.default is not None and not stars:
            part += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        parts.append(part)
    if is_positional:
        parts.append("/")
    end = "" if returns is None else f" -> {returns}"
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= COLUMNS_MAX or not parts:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def code(text):
    """A block of Python."""
    return f"```python\n{text}\n```"


def function(heading, name, thing):
    """The entry of a function or method."""
    how = "".join(f"@{label}\n" for label in ("staticmethod", "classmethod") if label in thing.labels)
    yield f"{heading} `{name}` {{#{name}}}"
    yield code(how + "def " + called(thing.name, thing.parameters, thing.returns))
    if words(thing):
        yield words(thing)


def attribute(owner, thing):
    """The entry of an attribute: a line of a list."""
    kind = f": `{thing.annotation}`" if thing.annotation is not None else ""
    is_constant = "class-attribute" in thing.labels and "property" not in thing.labels and thing.value is not None
    value = f" = `{thing.value}`" if is_constant else ""
    said = " ".join(words(thing).split())
    return f'- <a id="{owner}.{thing.name}"></a>`{thing.name}`{kind}{value}' + (f" — {said}" if said else "")


def members(thing):
    """What a class offers, in the order of its source."""
    return [target(member) for name, member in thing.members.items() if not name.startswith("_") or name == "__getitem__"]


def a_class(name, thing):
    """The entry of a class and of what it offers."""
    bases = [str(base) for base in thing.bases]
    maker = thing.members.get("__init__") or thing.members.get("__new__")
    yield f"## `{name}` {{#{name}}}"
    if maker is None or name in GIVEN:
        yield code(f"class {name}({', '.join(bases)})" if bases else f"class {name}")
    else:
        yield code("class " + called(name, target(maker).parameters))
    if words(thing):
        yield words(thing)
    offered = members(thing)
    attributes = [attribute(name, member) for member in offered if member.is_attribute]
    if attributes:
        yield "\n".join(attributes)
    for member in offered:
        if member.is_function:
            yield from function("###", f"{name}.{member.name}", member)


def entry(name, thing):
    """The entry of whatever a module exports."""
    if thing.is_class:
        yield from a_class(name, thing)
    elif thing.is_function:
        yield from function("##", name, thing)
    elif thing.is_attribute:
        yield f"## `{name}` {{#{name}}}"
        yield code(f"{name} = {thing.value}" if thing.annotation is None else f"{name}: {thing.annotation}")
        if words(thing):
            yield words(thing)


def page(module):
    """The page of a module."""
    exported = {str(name): target(module.members[str(name)]) for name in module.exports}
    inside = {name: thing for name, thing in exported.items() if not thing.is_module}
    parts = [f"# `{module.path}`", words(module)]
    rows = [f"| [`{name}`](#{name}) | {about(thing).replace('|', '&#124;')} |" for name, thing in inside.items()]
    parts.append("\n".join(["| name | |", "|---|---|", *rows]))
    for name, thing in inside.items():
        parts.extend(entry(name, thing))
    return "\n\n".join(parts) + "\n"


def file_of(module):
    """The page's file."""
    return f"{module.path}.md"


def main():
    parser = argparse.ArgumentParser(description="The reference of the Python package nearhead as Markdown.")
    parser.add_argument("folder", type=Path, help="where the pages go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for module in modules(package()):
        (folder / file_of(module)).write_text(page(module))
        print(f"  - [{module.path}](docs/{folder.name}/{file_of(module)})")


if __name__ == "__main__":
    sys.exit(main())
