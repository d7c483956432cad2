"""What a run costs, before it begins."""
