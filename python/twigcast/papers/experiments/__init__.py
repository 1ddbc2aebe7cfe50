"""The papers' experiments, run again: each module is one paper, ``run`` gives its figures and tables as a Report."""
