"""What the kernel costs, as ratios within one run: `python -m benchmarks`."""
