"""``Front``: what a search found, as ``front.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from jcw_core.errors import FormatError, JcwError
from jcw_core.files import read_json, write_json
from jcw_core.names import is_text
from jcw_core.network.architecture import Architecture
from jcw_core.run.records.values import is_finite
from jcw_core.shown import count_of


@dataclass(frozen=True, slots=True)
class Candidate:
    """An architecture with its predicted objectives, by objective name (``latency`` in ms).

    Args:
        architecture: what it keeps.
        objectives: what is reported of it.
        estimates: by which it was chosen, where they are not what is reported: a value that chose it
            flatters it.
    """

    architecture: Architecture
    objectives: Mapping[str, float]
    estimates: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {value:.6g}" for name, value in self.objectives.items())
        return f"<Candidate: {values or 'no objectives'}; {self.architecture!r}>"


@dataclass(frozen=True, slots=True)
class Front:
    """What a search found.

    Args:
        network: name of the network.
        units: unit of each objective, in the order of the search.
        candidates: mutually non-dominated by what they were chosen by, by rising latency.
        search: how it was found: ``strategy``, ``variant``, ``generations``, ``population``,
            ``evaluated``, ``hypervolume`` (of the first population and of each generation, normalised by the space's
            bounds), ``population_latency_ms`` (of the last generation), ``again`` (objectives that were
            evaluated again for the front), ``failed`` (architectures that had no finite value).
        uniform: by kind (``channels``, ``weights``, ``both``), what one share of all channels, one density or both
            give by the same estimates.
    """

    FORMAT: ClassVar[str] = "jcw-front/1"

    network: str
    units: Mapping[str, str]
    candidates: Sequence[Candidate]
    search: Mapping[str, Any] = field(default_factory=dict)
    uniform: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)

    def __repr__(self) -> str:
        candidates = count_of(len(self.candidates), "candidate")
        return f"<Front of {self.network!r}: {candidates} by {', '.join(self.units)}>"

    def write(self, path: Path) -> None:
        """Write ``front.json``."""
        uniform = {kind: list(map(_row, found)) for kind, found in self.uniform.items()}
        write_json(
            path,
            {
                "format": self.FORMAT,
                "network": self.network,
                "units": dict(self.units),
                "search": dict(self.search),
                "models": list(map(_row, self.candidates)),
                **({"uniform": uniform} if uniform else {}),
            },
        )

    @classmethod
    def read(cls, path: Path) -> Front:
        """Read ``front.json``. Raises ``FormatError`` for anything else."""
        document = read_json(path, kind=cls.FORMAT)
        try:
            candidates = [_candidate(row) for row in document["models"]]
            uniform = {
                str(kind): [_candidate(row) for row in rows]
                for kind, rows in document.get("uniform", {}).items()
            }
            if not is_text(document["network"]):
                raise FormatError(f"network is {document['network']!r:.60}, expected a name")
            found = dict(document["search"])
            return cls(document["network"], dict(document["units"]), candidates, found, uniform)
        except (KeyError, TypeError, ValueError, AttributeError, JcwError) as error:
            raise FormatError(f"{path}: not a front ({error}); run the search again") from None


def _row(candidate: Candidate) -> dict[str, Any]:
    found = {"architecture": candidate.architecture.to_dict(), "objectives": dict(candidate.objectives)}
    return found | ({"estimates": dict(candidate.estimates)} if candidate.estimates else {})


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(
        Architecture.from_dict(row["architecture"]),
        {str(name): _finite(value) for name, value in row["objectives"].items()},
        {str(name): _finite(value) for name, value in row.get("estimates", {}).items()},
    )


def _finite(value: Any) -> float:
    if not is_finite(value):
        raise FormatError(f"{value!r:.60} is no finite number")
    return float(value)
