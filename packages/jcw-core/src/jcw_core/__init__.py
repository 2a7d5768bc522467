"""Networks, search space, hooks and pipeline of JCW: joint channel and weight pruning."""
