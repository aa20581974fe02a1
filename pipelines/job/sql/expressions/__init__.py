"""One expression of a Stream Analytics script as Spark SQL over one row (Q20 to Q44)."""

from pipelines.job.sql.expressions.translator import translate

__all__ = ["translate"]
