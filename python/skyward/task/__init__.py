"""What a function uses while it runs on a node. Needs no compiled code."""
