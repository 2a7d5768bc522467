#!/usr/bin/env python3
"""Speaks as jcw-device does. What ``mood`` beside it says happens at the next ``layers`` or ``run``."""

import json
import pathlib
import sys
import time

words = sys.argv[1:]
mood_file = pathlib.Path(__file__).with_name("mood")
mood = mood_file.read_text() if mood_file.exists() else ""
rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 1
if words[0] == "describe":
    print(json.dumps({"cpu": "stand-in", "isa": "neon", "isas": ["neon"], "version": "9.9"}))
    sys.exit()
if words[0] == "layers":
    problems = [json.loads(line) for line in pathlib.Path(words[1]).read_text().splitlines()]
    seconds = [
        None if p["op"] == "flatten" else 1e-6 * p["in_channels"] * p["out_channels"] for p in problems
    ]
    if "--precision int8" in " ".join(words):
        seconds = [taken and taken / 2 for taken in seconds]
else:
    models = words[1 : words.index("--rounds")]
    seconds = [1e-3 * pathlib.Path(m).stat().st_size for m in models]
half = len(seconds) // 2
if mood == "refuses":
    sys.exit("jcw-device: cannot allocate memory")
for first, part in ((0, seconds[:half]), (half, seconds[half:])):
    if not part:
        continue
    print(json.dumps({"first": first, "kernels": [], "macs": []}))
    for index in range(rounds):
        if mood == "stops" and index:
            sys.exit()
        while mood == "hangs" and mood_file.exists():
            time.sleep(0.05)
        if mood == "babbles":
            print("Killed")
        if mood == "counts wrong":
            first += 1000
        print(json.dumps({"first": first, "round": index, "seconds": part}), flush=True)
