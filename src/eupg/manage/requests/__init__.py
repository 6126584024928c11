"""Erasure requests: intake, states, deadlines and the index over them."""
