"""Further public tables of real people, most of whom have several records."""
