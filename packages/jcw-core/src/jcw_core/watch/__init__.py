"""``jcw watch``: the report of a run, as far as it is known, while the run goes on."""
