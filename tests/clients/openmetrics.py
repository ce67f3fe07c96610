#!/usr/bin/env python3
"""Parses a page of metrics with the parsers of prometheus_client.

    openmetrics.py OPENMETRICS_PAGE [TEXT_PAGE]

The first file is in the format OpenMetrics 1.0.0, the second in the older text format 0.0.4. Prints
the number of families and samples, and fails at the first violation.
"""

import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text


def samples(families):
    """All samples by name and labels, each of which may occur once."""
    found = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in found:
                sys.exit(f"{key} occurs twice")
            if sample.name.endswith(("_total", "_bucket", "_count")) and sample.value < 0:
                sys.exit(f"{key} is negative")
            found[key] = sample.value
    return found


def main():
    with open(sys.argv[1], newline="", encoding="utf-8") as page:
        families = list(openmetrics(page.read()))
    names = [family.name for family in families]
    if len(set(names)) != len(names):
        sys.exit("a family occurs twice")
    for family in families:
        if not family.documentation:
            sys.exit(f"{family.name} has no help")
    found = samples(families)
    if len(sys.argv) > 2:
        with open(sys.argv[2], newline="", encoding="utf-8") as page:
            older = samples(text(page.read()))
        if set(older) != set(found):
            sys.exit(f"the formats differ in {set(older) ^ set(found)}")
    unlisted = [name for name in names if "unlisted" in name]
    print(f"{len(names)} families, {len(found)} samples, unlisted: {unlisted}")


main()
