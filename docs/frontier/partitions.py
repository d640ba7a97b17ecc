#!/usr/bin/env python3
"""What a training step of 20B parameters in bf16 communicates on 48 nodes of Frontier, by `kolo cost`: ZeRO-3, ZeRO++, three levels.

Prints seconds per micro-batch, of calls one after the other, each with the fastest of some pipelines. No compute is in them.
"""
import json
import os
import subprocess

WEIGHTS = 40_000_000_000  # bytes of all weights, and of all gradients
PIPELINES = (16, 64)
NODES, NODE, MODULES = "node=48,gpu=8", "node=1,gpu=8", "node=48,module=4,die=2"

# (calls per micro-batch, and in one step beside them; algorithm, mesh, share of the weights, codecs)
SCHEMES = {
    "ZeRO-3": [(2, 0, "frontierAllGather", NODES, 1), (1, 0, "frontierReduceScatter", NODES, 1)],
    "ZeRO++": [(1, 0, "quantisedRailAllGather", NODES, 1), (1, 0, "frontierAllGather", NODE, 1),
               (1, 0, "quantisedReduceScatter", NODES, 1, "node=int4", "network=int4")],
    "three levels": [(2, 0, "pairAllGather", MODULES, 1, "weights=int8"),
                     (1, 0, "nodeReduceScatter", MODULES, 1, "die=int4", "module=int4"),
                     (0, 1, "railReduceScatter", MODULES, 1 / 8, "network=int4"),
                     (0, 1, "partitionAllGather", MODULES, 1 / 2, "weights=int8")],
}


def seconds(algorithm, mesh, share, *codecs):
    flags = [word for codec in codecs for word in ("--codec", codec)]

    def one(pipeline):
        done = subprocess.run([os.environ.get("KOLO", "kolo"), "cost", algorithm, "--machine", "frontier", "--mesh", mesh,
                               "--bytes", str(int(share * WEIGHTS)), "--dtype", "bf16", "--pipeline", str(pipeline), "--json",
                               *flags], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["schedules"][0]["sizes"][0]["seconds"]
    return min(map(one, PIPELINES))


def main():
    perMicroBatch, perStep = {}, {}
    for scheme, calls in SCHEMES.items():
        perMicroBatch[scheme] = perStep[scheme] = 0
        for often, once, algorithm, mesh, share, *codecs in calls:
            time = seconds(algorithm, mesh, share, *codecs)
            perMicroBatch[scheme] += often * time
            perStep[scheme] += once * time
            print(f"{scheme:<13} {time:6.3f} s  {'each step' if once else f'{often} x each micro-batch':<20}  {' '.join([algorithm, *codecs])} on {mesh}")
    for number in (1, 4):
        total = {scheme: perMicroBatch[scheme] + perStep[scheme] / number for scheme in SCHEMES}
        text = ", ".join(f"{scheme} {total[scheme]:.2f} s" for scheme in SCHEMES)
        gain = total["ZeRO++"] / total["three levels"]
        print(f"{number} micro-batch{'es' if number > 1 else ''} per step, each takes: {text}; ZeRO++ takes {gain:.2f} times as long as three levels")
    print("published: 1.71 times as many TFLOPS per GCD as ZeRO++ (20B, 384 GCDs); that figure contains compute, these do not")


if __name__ == "__main__":
    main()
