"""Built-in network families, one module each."""
