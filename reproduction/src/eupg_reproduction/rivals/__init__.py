"""Everyone the library can be compared with: methods × tables of people, measured alike."""
