"""Fidelity: how far predictions are from whole networks that were run."""
