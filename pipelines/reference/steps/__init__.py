"""The steps of a query, one relation at a time, over lists of rows: the most direct reading of the rules."""

from pipelines.reference.steps.outputs import outputs
from pipelines.reference.steps.relation import Relation, Row

__all__ = ["Relation", "Row", "outputs"]
