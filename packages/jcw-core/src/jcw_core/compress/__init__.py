"""``jcw compress``: from a trained network and some images to files that keep to a latency, without a recipe."""
