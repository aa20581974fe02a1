"""What the catalogue tells of a Delta table: its name, where it lies, and its columns as they are now."""

import dagster as dg
import pyarrow as pa

from pipelines.lakehouse.root import Lakehouse


def about_table(house: Lakehouse, name: str) -> dict[str, dg.MetadataValue]:
    """Dagster's own metadata of the table ``name``, which its catalogue shows apart; of an unwritten one the place."""
    about: dict[str, dg.MetadataValue] = {
        "dagster/table_name": dg.MetadataValue.text(name),
        "dagster/uri": dg.MetadataValue.text(house.uri(name)),
    }
    table = house.open(name)
    if table is None:
        return about
    columns = [
        dg.TableColumn(field.name, str(field.type), constraints=dg.TableColumnConstraints(nullable=field.nullable))
        for field in pa.schema(table.schema().to_arrow())
    ]
    return {**about, "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns))}
