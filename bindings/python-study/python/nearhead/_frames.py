"""Arrays, Arrow tables and frames of the columns that a trace or a result has. Each package is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._columns import missing
from ._native import Error


def arrow(what: str) -> Any:
    """PyArrow, which `what` needs."""
    try:
        import pyarrow as module
    except ImportError:
        raise missing("pyarrow", what) from None
    return module


def to_arrow(columns: Mapping[str, Any], what: str) -> Any:
    """An Arrow table; what is masked is null."""
    pa = arrow(what)
    arrays = {}
    for name, column in columns.items():
        mask = _mask(column)
        arrays[name] = pa.array(column) if mask is None else pa.array(column.data, mask=mask)
    return pa.table(arrays)


def to_pandas(columns: Mapping[str, Any], what: str) -> Any:
    """A pandas frame; what is masked is missing, in a column of whole numbers all the same."""
    try:
        import pandas
    except ImportError:
        raise missing("pandas", what) from None
    arrays = {}
    for name, column in columns.items():
        mask = _mask(column)
        arrays[name] = column if mask is None else pandas.arrays.IntegerArray(column.data.copy(), mask)
    return pandas.DataFrame(arrays)


def to_polars(columns: Mapping[str, Any], what: str) -> Any:
    """A polars frame; what is masked is null."""
    try:
        import polars
    except ImportError:
        raise missing("polars", what) from None
    series = []
    for name, column in columns.items():
        mask = _mask(column)
        if mask is None:
            series.append(polars.Series(name, column))
        else:
            series.append(polars.Series(name, column.data).set(polars.Series(mask), None))
    return polars.DataFrame(series)


def _mask(column: Any) -> Any:
    """Where a column of NumPy is masked; nothing of one that cannot be."""
    if not hasattr(column, "filled"):
        return None
    from numpy import ma

    return ma.getmaskarray(column)


def columns_of(table: Any) -> dict[str, Any]:
    """The columns of a mapping, an Arrow table, a pandas or a polars frame, by their names."""
    if isinstance(table, Mapping):
        return dict(table)
    if hasattr(table, "column_names"):
        return {name: _of_arrow(table.column(name)) for name in table.column_names}
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return {str(name): table[name].to_numpy() for name in table.columns}
    raise Error(f"trace: expected a mapping, an Arrow table or a frame, found {type(table).__name__}")


def _of_arrow(column: Any) -> Any:
    # Without NumPy a column goes number by number.
    try:
        return column.to_numpy()
    except ImportError:
        return column.to_pylist()
