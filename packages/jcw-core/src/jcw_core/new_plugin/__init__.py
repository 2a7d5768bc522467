"""``jcw new-plugin``: a package of one's own to begin with."""
