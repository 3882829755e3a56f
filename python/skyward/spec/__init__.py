"""The nouns: what a pool is asked for, and what it is made of."""
