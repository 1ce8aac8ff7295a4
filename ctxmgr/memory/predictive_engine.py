"""The door of prediction: which memories the work at hand will need. Reads the store.

No model is called, and nothing is written.
"""

from collections.abc import Sequence

from ctxmgr.memory.prediction.context_prediction import (
    ContextPrediction,
    TierPredictions,
    WorkSignals,
)
from ctxmgr.memory.prediction.paths import imported_paths
from ctxmgr.memory.resident import ResidentMemories


class PredictiveEngine:
    """Predicts from what is known of a principal's memories."""

    def __init__(self, resident: ResidentMemories) -> None:
        self._resident = resident

    async def on_file_open(
        self, filepath: str, *, text: str = "", recent_errors: Sequence[str] = ()
    ) -> ContextPrediction:
        """Predict what an opened file needs. ``text`` is its content, for what it imports."""
        suffix = f".{filepath.rpartition('.')[2]}" if "." in filepath else ""
        imports = tuple(dict.fromkeys(imported_paths(text, suffix=suffix)))
        return await self.predict(
            WorkSignals(file_opened=filepath, imports=imports, errors=tuple(recent_errors))
        )

    async def predict(self, signals: WorkSignals) -> ContextPrediction:
        """Predict from any signals."""
        await self._resident.refresh()
        shortlist = self._resident.shortlist
        project = self._resident.project_id
        return TierPredictions(
            {each.id: each for each in shortlist.memories.values() if each.holds_in(project)},
            signals,
            relevance=self._resident.relevance(signals.question()),
            usage=shortlist.usage,
        ).prediction()
