"""A bridge as a tutorial would write it, for comparison: `python -m tests.naive --calls 500 --seed 1` puts it through the same storm."""
