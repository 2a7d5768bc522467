"""The kinds of plugin that a package can be begun with, one for each hook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What differs from kind to kind, beside the code that does the work, which is in ``templates``.

    Args:
        hook: that it implements.
        what: it is.
        made: the name in that code which is handed over; a class is called first.
        use: how a user asks for it, with ``$name`` for what it is called.
        family: of the registry; ``""`` where it has no name there.
    """

    hook: str
    what: str
    made: str
    use: str
    family: str = ""

    @property
    def call(self) -> str:
        """The expression that is handed over."""
        return f"{self.made}()" if self.made[0].isupper() else self.made


KINDS: Mapping[str, Kind] = {
    "backbone": Kind(
        "jcw_register_backbones",
        "A family of networks",
        "Plain",
        '`[network] backbone = "$name"`',
        "backbones",
    ),
    "device": Kind("jcw_register_devices", "A device", "Calculator", '`[device] name = "$name"`', "devices"),
    "objective": Kind(
        "jcw_register_objectives",
        "An objective of searches",
        "Channels",
        '`[search] objectives = ["latency", "error", "$name"]`',
        "objectives",
    ),
    "selection": Kind(
        "jcw_register_selections",
        "A selection strategy",
        "Lottery",
        '`[search] algorithm = "plain"` with `selection = "$name"`',
        "selections",
    ),
    "importance": Kind(
        "jcw_register_importances",
        "A criterion of channel importance",
        "Energy",
        '`[supernet] importance = "$name"` where `mode = "post-training"`',
        "importances",
    ),
    "dataset": Kind("jcw_register_datasets", "A dataset", "Stripes", '`[data] name = "$name"`', "datasets"),
    "exporter": Kind(
        "jcw_register_exporters",
        "A file format for models",
        "Npz",
        '`[export] formats = ["jcw", "$name"]`',
        "exporters",
    ),
    "stage": Kind(
        "jcw_register_stages", "A stage of runs", "Census", "`jcw run recipe.toml --until $name`", "stages"
    ),
    "report": Kind(
        "jcw_register_report", "A section of the report", "Origin", "every report has it", "report_sections"
    ),
    "command": Kind("jcw_register_commands", "A command", "command", "`jcw $name --help`", "commands"),
    "progress": Kind("jcw_progress", "A listener", "tell", "every run tells it how far it has come"),
}
"""By what ``--kind`` calls it."""
