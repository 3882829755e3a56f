"""What the rest stands on: the compiled half, and hints for parameters that do not exist."""
