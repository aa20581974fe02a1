"""The operators of expressions, by name; each gives Spark SQL of the same value."""

from __future__ import annotations

from pipelines.job.atlas_pipeline.operators.arrays import ARRAYS
from pipelines.job.atlas_pipeline.operators.conversions import CONVERSIONS
from pipelines.job.atlas_pipeline.operators.dates import DATES
from pipelines.job.atlas_pipeline.operators.documents import DOCUMENTS
from pipelines.job.atlas_pipeline.operators.logic import LOGIC
from pipelines.job.atlas_pipeline.operators.numbers import NUMBERS
from pipelines.job.atlas_pipeline.operators.strings import STRINGS

OPERATORS = {**NUMBERS, **LOGIC, **STRINGS, **DATES, **CONVERSIONS, **ARRAYS, **DOCUMENTS}
