"""Training of networks in torch. Only ``options`` and ``extra`` can be imported without it."""
