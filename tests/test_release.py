"""What each package brings for its wheel; `tox run -e wheels` looks at the wheels themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))


def project(package: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_there_are_five() -> None:
    assert len(PACKAGES) == 5


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_licence_types_and_readme_are_there(package: Path) -> None:
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (package / "src" / package.name.replace("-", "_") / "py.typed").is_file()
    assert (package / project(package)["readme"]).stat().st_size > 500


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_an_index_can_tell_what_a_package_is(package: Path) -> None:
    """What makes it found, in the form of PEP 639; alike in all five, and with no address that is not there."""
    found, core = project(package), project(ROOT / "packages" / "jcw-core")
    assert (found["license"], found["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert found["authors"][0]["name"] in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert found["keywords"] == sorted(found["keywords"], key=str.casefold)
    assert found["classifiers"] == sorted(found["classifiers"])
    oldest = found["requires-python"].removeprefix(">=")
    for classifier in (
        f"Programming Language :: Python :: {oldest}",
        "Operating System :: POSIX :: Linux",
        "Typing :: Typed",
    ):
        assert classifier in found["classifiers"]
    # An index refuses classifiers of the licence beside an expression of it.
    assert not any(classifier.startswith("License") for classifier in found["classifiers"])
    assert "urls" not in found
    for key in ("authors", "keywords", "classifiers", "requires-python"):
        assert found[key] == core[key]


def test_all_have_one_version_and_need_no_newer_one_of_each_other() -> None:
    (version,) = {project(package)["version"] for package in PACKAGES}
    floors = {
        tuple(map(int, floor.split(".")))
        for package in PACKAGES
        for needed in project(package)["dependencies"]
        for floor in re.findall(r"^jcw-\w+(?:\[\w+\])?>=([\d.]+)$", needed)
    }
    assert floors
    assert max(floors) <= tuple(map(int, version.split(".")))


def test_the_paper_can_be_cited() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "Joint Channel and Weight Pruning for Model Acceleration on Mobile Devices" in citation
    assert citation.startswith("cff-version: 1.2.0\n")
