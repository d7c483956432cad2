"""Many runs with one question."""
