from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from jcw_core.errors import JcwError
from jcw_core.frames import data_frame


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(JcwError, match="pip install pandas"):
        data_frame({"a": [1]})


def test_a_pandas_that_lacks_something_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any, **keywords: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'dateutil'", name="dateutil")
        return real(name, *rest, **keywords)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ModuleNotFoundError, match="dateutil"):
        data_frame({"a": [1]})


def test_columns_become_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    assert data_frame({"a": [1, 2]}).equals(pandas.DataFrame({"a": [1, 2]}))
