"""One file a command, each with one `main()`; the only code that knows Hydra or argparse."""
