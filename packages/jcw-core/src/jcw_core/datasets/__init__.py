"""Built-in kinds of dataset, one module each."""
