"""The objective ``latency``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jcw_core.run import records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jcw_core.protocols import Run
    from jcw_core.space.space import Population, SearchSpace
    from jcw_latency.table.predictor import LatencyPredictor
    from jcw_latency.table.table import LatencyTable


class LatencyObjective:
    """Predicted latency on the run's device."""

    name = "latency"
    unit = "ms"
    needs = (records.TABLE,)

    def open(self, run: Run) -> LatencyEvaluator:
        """Read the run's latency table."""
        from jcw_latency.table.table import LatencyTable

        return LatencyEvaluator(LatencyTable.load(run.path(records.TABLE)))


class LatencyEvaluator:
    """Evaluates architectures with one table."""

    exact = True

    def __init__(self, table: LatencyTable) -> None:
        self._table = table
        self._predictor: LatencyPredictor | None = None

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Predictions hold for ever."""
        return False

    def evaluate(self, space: SearchSpace, population: Population) -> NDArray[np.float64]:
        """Milliseconds, (n,)."""
        from jcw_latency.table.predictor import LatencyPredictor

        if self._predictor is None or self._predictor.space is not space:
            self._predictor = LatencyPredictor(self._table, space)
        return self._predictor.predict(population)
