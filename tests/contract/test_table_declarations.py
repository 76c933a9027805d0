"""Tables have exactly the declared columns, with the declared types."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample
from fxtio.formats import formats
from fxtio.schema import REQUIRED, dtype_of


@pytest.mark.parametrize("name", formats())
def test_writers_take_the_columns_that_are_declared_as_written(name: str) -> None:
    item = formats()[name]
    specs = item.room("tables").specs()
    writable = getattr(item.room("writer"), item.writer).writable_tables
    assert {table for table, spec in specs.items() if spec.writable} == set(writable)
    for table, accepted in writable.items():
        required = {column for column, spec in specs[table].columns.items() if spec.written == REQUIRED}
        assert required == set(accepted.required), table


FULL = [sample for sample in SYNTHETIC if sample.shape == "everything"]


@pytest.mark.parametrize("sample", FULL, ids=str)
def test_tables_have_the_declared_columns(sample: Sample, tmp_path: Path) -> None:
    with fxtio.open(sample.make(tmp_path), format=sample.format.name) as trace:
        tables = trace.tables(*trace.table_names)
    specs = {name: spec for name, spec in sample.format.room("tables").specs().items() if not spec.only_written}
    assert [*specs] == [*tables]
    for name, spec in specs.items():
        assert spec.meaning
        table = tables[name]
        assert {column: dtype_of(table[column]) for column in table.column_names} == {
            column: each.dtype for column, each in spec.read.items()
        }, name
        assert table.column_names == [*spec.read]
