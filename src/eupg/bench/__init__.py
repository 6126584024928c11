"""The paper's experiments and those beside them: declared as data, run in small resumable cells, kept in one file."""
