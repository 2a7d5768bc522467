"""Trains the networks that a search has chosen, and hands them over."""
