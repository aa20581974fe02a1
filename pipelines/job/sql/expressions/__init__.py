"""One expression of a Stream Analytics script as Spark SQL over one row (Q20 to Q44)."""

from pipelines.job.sql.expressions.translator import translate
from pipelines.job.sql.expressions.user_functions import user_function

__all__ = ["translate", "user_function"]
