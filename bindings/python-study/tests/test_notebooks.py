"""The notebooks: they run from the first cell to the last, and are kept without what they gave out."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import nearhead
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: What running one takes beside the package.
NEEDED = ("nbclient", "ipykernel", "matplotlib", "plotly", "pandas", "numpy")
#: Past this a cell hangs; a whole notebook takes seconds.
CELL_S_MAX = 600

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def skip_without(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"there is no {package}; scripts/install-python-tests gets it")


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@each
def test_a_notebook_is_kept_without_what_it_gave_out(path):
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            advice = f"clear the outputs of {path.name}: jupyter nbconvert --clear-output --inplace"
            assert (cell["outputs"], cell["execution_count"]) == ([], None), advice
        else:
            assert "outputs" not in cell and "attachments" not in cell, cell["id"]


@each
def test_a_notebook_names_no_machine_and_needs_no_newer_reader(path):
    told = json.loads(path.read_text())
    assert (told["nbformat"], told["nbformat_minor"]) == (4, 5)
    # An editor writes down which interpreter it had.
    assert told["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    skip_without("nbformat")
    import nbformat

    nbformat.validate(nbformat.read(path, as_version=4))


@each
def test_a_notebook_runs_and_draws_both_ways(path, monkeypatch, tmp_path):
    skip_without(*NEEDED)
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    monkeypatch.setenv("NEARHEAD_EFFORT", "tiny")
    for folder in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=CELL_S_MAX, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}})
    try:
        client.execute()
    except CellExecutionError as error:
        pytest.fail(f"{path.name}: {error}", pytrace=False)
    given = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    forms = {form for output in given for form in output.get("data", {})}
    assert "image/png" in forms and "application/vnd.plotly.v1+json" in forms, forms
    complaints = [output.text for output in given if output.get("name") == "stderr"]
    assert complaints == []


def test_nothing_that_draws_is_imported_before_it_is_used():
    code = "import sys, nearhead.theme; print(sorted({'plotly', 'matplotlib', 'pandas', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
    code = "import sys, nearhead; print('nearhead.theme' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_a_thing_has_its_colour_wherever_it_is_drawn():
    from nearhead import theme

    names = ["bare disk", "ordered", "mlb", "wasteless", "nearhead"]
    told = theme.colours(names)
    assert list(told) == names and len(set(told.values())) == len(names) and set(told.values()) <= set(theme.COLOURS)
    for name in ("bare disk", "mlb", "nearhead"):
        assert theme.colours([name])[name] == told[name]
    assert len(set(theme.colours(map(str, range(8))).values())) == 8
    with pytest.raises(nearhead.Error, match="at most 8 names"):
        theme.colours(map(str, range(9)))
    with pytest.raises(nearhead.Error, match="several names, found the text 'mlb'"):
        theme.colours("mlb")


def test_both_libraries_draw_alike():
    skip_without("matplotlib", "plotly")
    from nearhead import theme

    theme.use()
    import matplotlib
    import plotly.graph_objects
    import plotly.io

    assert tuple(matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]) == theme.COLOURS
    assert plotly.graph_objects.Figure().layout.template.layout.colorway == theme.COLOURS
    # Not a page that loads its library from elsewhere.
    assert plotly.io.renderers.default == "plotly_mimetype"


def test_without_either_library_the_theme_says_what_is_missing():
    code = "import sys; sys.modules.update(plotly=None, matplotlib=None, cycler=None); from nearhead import theme; theme.use()"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 1 and "theme: expected the package matplotlib or plotly, found none" in said.stderr
