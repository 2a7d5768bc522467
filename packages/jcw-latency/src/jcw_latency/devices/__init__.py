"""Devices: a recorded table, machines that are reached by ssh or adb, and the guard around any of them."""
