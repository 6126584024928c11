"""Every exception the library raises, in one tree.

::

    EupgError
    ├── ParameterError   (ValueError)         an object was given a value it cannot have
    ├── SchemaError      (ValueError)         a schema contradicts itself or cannot be read
    ├── DataError        (ValueError)         records do not fit the schema, or the step they are given to
    │   └── NothingRetained                   no record is left to train on
    ├── UnknownRecord    (KeyError)           a record or person that is not (or no longer) here
    ├── PrivacyError     (ValueError)         the request would weaken or void the guarantee
    │   └── CertificateRefused                nothing is claimed, so nothing can be certified
    ├── CertificateInvalid (ValueError)       a certificate is damaged, forged, or not what it seems
    ├── KeyFileError     (OSError)            a key is missing, damaged, or open to others
    ├── ModelFileError   (ValueError)         a model file is damaged, foreign or not allowed
    ├── LedgerCorrupt    (ValueError)         the ledger's entries contradict each other, or their index
    ├── LedgerUnavailable (OSError)           the ledger cannot be opened, read or written right now
    │   ├── LedgerBusy   (TimeoutError)       another writer held the ledger for too long
    │   └── LedgerMissing (FileNotFoundError) the ledger of a workspace that is in use is not there
    ├── RequestRefused   (ValueError)         an erasure request cannot take this step from where it is
    ├── UnknownRequest   (KeyError)           no erasure request has this id
    ├── MissingFramework (ModuleNotFoundError) an optional package is not installed
    ├── StorageError     (OSError)            a file could not be written, read or removed; the disk says why
    ├── StoreCorrupt     (ValueError)         a stored file is missing, damaged or not what its name says
    ├── DeletionIncomplete (RuntimeError)     what was deleted here is still somewhere else
    ├── LockHeld         (BlockingIOError)    somebody else is changing the workspace right now
    ├── ChangeOvertaken  (RuntimeError)       another process changed the workspace first; this change did not happen
    ├── ChangeUnsettled  (RuntimeError)       the change took effect, but what follows from it is not done yet
    ├── WorkspaceDamaged (ValueError)         a workspace's own files contradict each other or its ledger
    ├── WorkspaceState   (RuntimeError)       the step needs another one first, or was done already
    ├── WorkerLost       (RuntimeError)       a process that trained models ended before it was done
    ├── MeasurementFailed (RuntimeError)      a process that measured for a benchmark ended before it was done
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


class CertificateRefused(PrivacyError):
    """Nothing is claimed, or not enough is said, so no certificate can be made."""


class CertificateInvalid(EupgError, ValueError):
    """A certificate is damaged, forged, or not what it seems."""


class KeyFileError(EupgError, OSError):
    """A key file is missing, damaged, or open to others."""


class ModelFileError(EupgError, ValueError):
    """A model file is damaged, foreign, or holds something that is not allowed."""


class LedgerCorrupt(EupgError, ValueError):
    """The ledger's entries contradict each other, or the index made from them."""


class LedgerUnavailable(EupgError, OSError):
    """The ledger cannot be opened, read or written right now."""


class LedgerBusy(LedgerUnavailable, TimeoutError):
    """Another writer held the ledger for longer than this one would wait."""


class LedgerMissing(LedgerUnavailable, FileNotFoundError):
    """The ledger of a workspace that is in use is not there."""


class RequestRefused(EupgError, ValueError):
    """An erasure request cannot take this step from where it is."""


class UnknownRequest(EupgError, KeyError):
    """No erasure request has this id."""

    def __str__(self) -> str:
        """Show the message as written; ``KeyError`` would show its ``repr``."""
        return str(self.args[0]) if self.args else ""


class MissingFramework(EupgError, ModuleNotFoundError):
    """An optional package is needed and not installed."""


class StorageError(EupgError, OSError):
    """A file could not be written, read or removed, for a reason the disk gives."""


class StoreCorrupt(EupgError, ValueError):
    """A stored file is missing, damaged, or not what its name says."""


class DeletionIncomplete(EupgError, RuntimeError):
    """What was deleted here is still somewhere else."""


class LockHeld(EupgError, BlockingIOError):
    """Somebody else is changing the workspace right now."""


class ChangeOvertaken(EupgError, RuntimeError):
    """Another process changed the workspace while this change was being prepared; this one did not happen."""


class ChangeUnsettled(EupgError, RuntimeError):
    """The change took effect, but deleting old files or writing the ledger failed; ``recover`` completes it."""


class WorkspaceDamaged(EupgError, ValueError):
    """A workspace's own files contradict each other or its ledger."""


class WorkspaceState(EupgError, RuntimeError):
    """The step needs another one first, or was done already."""


class WorkerLost(EupgError, RuntimeError):
    """A process that trained models beside this one ended before it was done."""


class MeasurementFailed(EupgError, RuntimeError):
    """A process that measured for a benchmark ended before it was done."""


class SourceUnavailable(EupgError, FileNotFoundError):
    """A data set is neither on this machine nor to be fetched."""
