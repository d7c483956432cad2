"""Jobs and sweeps: several runs, one process each."""
