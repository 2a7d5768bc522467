"""Pruning after training: every architecture of the space has weights without a step of training.

One pass over calibration images collects what each layer reads; the optimal brain surgeon then says in which
order its weight groups go, and what is kept is refitted to the dense layer's outputs. Needs torch.
"""
