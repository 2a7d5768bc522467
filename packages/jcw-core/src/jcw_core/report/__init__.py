"""The report of a run: its data, its page and the charts on it."""
