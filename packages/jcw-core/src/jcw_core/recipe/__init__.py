"""Recipes: what the user asked for, read from TOML and checked; and a listing of every key that one may have."""

from jcw_core.recipe.recipe import (
    Choice,
    NetworkOptions,
    Recipe,
    RunOptions,
    SpaceOptions,
    SplitOptions,
    canonical,
    load_recipe,
    paths_in,
)

__all__ = [
    "Choice",
    "NetworkOptions",
    "Recipe",
    "RunOptions",
    "SpaceOptions",
    "SplitOptions",
    "canonical",
    "load_recipe",
    "paths_in",
]
