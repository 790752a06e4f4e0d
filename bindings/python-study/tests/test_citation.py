"""How the project is cited: `CITATION.cff` goes along with the package. Whether it is valid by the schema says `cffconvert --validate`."""

import re
from pathlib import Path

import nearhead

TEXT = (Path(__file__).resolve().parents[3] / "CITATION.cff").read_text()


def test_the_citation_is_of_this_version():
    assert re.search(r"^version: (\S+)$", TEXT, re.M).group(1) == nearhead.__version__


def test_the_citation_has_what_the_format_asks_for_and_every_paper():
    for key in ("cff-version: 1.2.0", "message: ", "title: ", "authors:\n"):
        assert re.search(f"^{key}", TEXT, re.M), key
    glossary = (Path(__file__).resolve().parents[3] / "GLOSSARY.md").read_text()
    papers = re.findall(r"\*([^*]+)\*", glossary.split("## Papers\n")[1])
    assert len(papers) == 5
    for paper in papers:
        assert f'title: "{paper}"' in TEXT, paper
