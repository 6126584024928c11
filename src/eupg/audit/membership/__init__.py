"""Membership inference: how well an attacker can tell, from the model, whose records it was trained on."""
