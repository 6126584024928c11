"""Every exception the library raises, in one tree.

::

    EupgError
    ├── ParameterError   (ValueError)         an object was given a value it cannot have
    ├── SchemaError      (ValueError)         a schema contradicts itself or cannot be read
    ├── DataError        (ValueError)         records do not fit the schema, or the step they are given to
    │   └── NothingRetained                   no record is left to train on
    ├── UnknownRecord    (KeyError)           a record or person that is not (or no longer) here
    ├── PrivacyError     (ValueError)         the request would weaken or void the guarantee
    ├── ModelFileError   (ValueError)         a model file is damaged, foreign or not allowed
    ├── MissingFramework (ModuleNotFoundError) an optional package is not installed
    └── SourceUnavailable (FileNotFoundError) a data set is neither here nor to be fetched

A message says what was expected, what was found, and what to do next.
"""


class EupgError(Exception):
    """Root of all errors raised on purpose by this library."""


class ParameterError(EupgError, ValueError):
    """An object was given a value it cannot have."""


class SchemaError(EupgError, ValueError):
    """A schema contradicts itself or cannot be read."""


class DataError(EupgError, ValueError):
    """Records do not fit the schema, or the step they are given to."""


class NothingRetained(DataError):
    """No record is left to train on."""


class UnknownRecord(EupgError, KeyError):
    """A record or person that is not, or no longer, among the records."""

    def __str__(self) -> str:
        """Show the message as written; ``KeyError`` would show its ``repr``."""
        return str(self.args[0]) if self.args else ""


class PrivacyError(EupgError, ValueError):
    """The request would weaken or void the guarantee."""


class ModelFileError(EupgError, ValueError):
    """A model file is damaged, foreign, or holds something that is not allowed."""


class MissingFramework(EupgError, ModuleNotFoundError):
    """An optional package is needed and not installed."""


class SourceUnavailable(EupgError, FileNotFoundError):
    """A data set is neither on this machine nor to be fetched."""
