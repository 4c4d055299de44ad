"""Plots how the loads of links are spread under each policy, for a machine file or a published machine.

    python link_loads.py preset:frontier loads.png        needs matplotlib and pandas
"""

import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import finerail

name, picture = sys.argv[1:3]
if name.startswith("preset:"):
    machine = finerail.Machine.preset(name.removeprefix("preset:"))
else:
    machine = finerail.Machine.read(name)

figure, axes = pyplot.subplots(figsize=(8, 5))
for policy in ["nearest", "balanced"]:
    plan = machine.plan(policy)
    loads = finerail.link_frame(plan).utilisation.sort_values(ascending=False)
    axes.plot(range(1, len(loads) + 1), loads, label=f"{policy}: hottest {loads.max():.1f}")
axes.set(xscale="log", xlabel="links, hottest first", ylabel="units per GB/s", title=machine.name)
axes.legend()
figure.savefig(picture)
print(f"{picture}: {machine.name}, {len(machine.clients)} clients")
