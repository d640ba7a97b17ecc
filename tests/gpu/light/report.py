"""What is added to the report of first_light, and printed at its end."""


def add_fractions(report):
    """Beside every time the share of it that the bytes need at the bandwidth of the largest copy."""
    copies = [figure for figure in report["parts"].get("limits", {}).get("figures", []) if figure["figure"] == "copy"]
    largest = max(copies, key=lambda figure: figure["bytes"], default=None)
    best = largest and largest["us"] and largest["leastBytes"] / largest["us"]  # bytes per microsecond
    report["copyBandwidthGBps"] = best and round(best / 1000, 3)
    for part in report["parts"].values():
        for figure in part.get("figures", []):
            if best and figure.get("us") and "leastBytes" in figure:
                figure["fraction"] = round(figure["leastBytes"] / best / figure["us"], 4)


def best_by_size(report, kind):
    """The fastest figure of every collective and size on 8 ranks."""
    best = {}
    for name in ("collectives", "small", "rivals"):
        for figure in report["parts"].get(name, {}).get("figures", []):
            if figure["figure"] == kind and figure.get("ranks") == 8 and figure.get("way") == "device":
                key = figure["collective"], figure["bytes"]
                if key not in best or figure["us"] < best[key]["us"]:
                    best[key] = figure
    return best


def print_table(run):
    found = {kind: best_by_size(run.report, kind) for kind in ("collective", "copies", "kernel")}
    if not found["collective"]:
        return
    run.say(f"\n8 ranks, {run.driver}, copy bandwidth {run.report['copyBandwidthGBps']} GB/s; "
            "microseconds on the device")
    run.say(f"{'collective':15} {'bytes':>11} {'kolo':>9} {'limit/kolo':>10} {'copies':>9} {'kernel':>9}  program")
    for (collective, size), figure in sorted(found["collective"].items()):
        others = [found[kind].get((collective, size), {}).get("us", "-") for kind in ("copies", "kernel")]
        run.say(f"{collective:15} {size:11} {figure['us']:9} {figure.get('fraction', '-'):>10} {others[0]:>9} "
                f"{others[1]:>9}  {figure['program']} {figure['protocol']} {figure['lanes']} lanes")
