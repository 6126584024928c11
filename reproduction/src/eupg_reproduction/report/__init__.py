"""The report: ``docs/results.md`` and its figures, made from the results file and the notes, and from nothing else."""
