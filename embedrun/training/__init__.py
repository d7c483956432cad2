"""The training loop and its parts: data order, optimizer, checkpoints, selection."""
