"""Tables as pandas data frames, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jcw_core.errors import JcwError

if TYPE_CHECKING:
    import pandas as pd


def data_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """A data frame of columns of one length, by name.

    Raises:
        JcwError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise JcwError("pandas is not installed, and a data frame needs it; pip install pandas") from None
    return pd.DataFrame(columns)
