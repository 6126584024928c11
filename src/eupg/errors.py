"""Every exception the library raises, in one tree.

A message says what was expected, what was got, and what to do next.

::

    EupgError
    ├── ParameterError   (ValueError)         a parameter has an invalid value
    ├── SchemaError      (ValueError)         a schema contradicts itself or cannot be read
    ├── DataError        (ValueError)         records do not fit the schema or the step
    │   └── NothingRetained                   no record is left to train on
    ├── UnknownRecord    (KeyError)           a record or person is not, or no longer, in the data
    ├── PrivacyError     (ValueError)         the request would weaken or void the guarantee
    │   └── CertificateRefused                nothing is claimed, so nothing can be certified
    ├── CertificateInvalid (ValueError)       a certificate is damaged, forged, or not what it seems
    ├── KeyFileError     (OSError)            a key is missing, damaged, or readable by others
    ├── ModelFileError   (ValueError)         a model file is damaged, of another origin, or not allowed
    ├── LedgerCorrupt    (ValueError)         the ledger's entries contradict each other, or their index
    ├── LedgerUnavailable (OSError)           the ledger cannot be opened, read or written right now
    │   ├── LedgerBusy   (TimeoutError)       another writer held the ledger for too long
    │   └── LedgerMissing (FileNotFoundError) the ledger of a workspace in use is missing
    ├── RequestRefused   (ValueError)         an erasure request cannot take this step in its state
    │   └── NobodyNamed                       no column of the workspace names people
    ├── UnknownRequest   (KeyError)           no erasure request has this id
    ├── UnknownModel     (KeyError)           no workspace of this name is in the folder
    ├── AccessDenied     (PermissionError)    the actor has no permission for this
    ├── SignInFailed     (ConnectionError)    the provider of sign-ins does not answer, or its answer does not hold
    ├── MailFailed       (OSError)            an e-mail could not be handed over
    ├── LeaseLost        (RuntimeError)       another worker has taken over; what this one wanted to note is refused
    ├── MissingFramework (ModuleNotFoundError) an optional package is not installed
    ├── StorageError     (OSError)            a file could not be written, read or removed
    ├── StoreCorrupt     (ValueError)         a stored file is missing, damaged or not what its name says
    ├── DeletionIncomplete (RuntimeError)     deleted content still exists somewhere else
    ├── LockHeld         (BlockingIOError)    another process is changing the workspace right now
    ├── ChangeOvertaken  (RuntimeError)       another process changed the workspace first; this change did not happen
    ├── ChangeUnsettled  (RuntimeError)       the change took effect, but its follow-up steps are not complete
    ├── WorkspaceDamaged (ValueError)         a workspace's own files contradict each other or its ledger
    ├── WrongState       (RuntimeError)       the step needs another one first, or was done already
    ├── WorkerLost       (RuntimeError)       a process of this run ended too early
    ├── MeasurementFailed (RuntimeError)      a process that measured for a benchmark ended too early
    └── SourceUnavailable (FileNotFoundError) a data set is neither on this machine nor can be downloaded
"""


class EupgError(Exception):
    """Root of all errors raised on purpose by this library."""


class ParameterError(EupgError, ValueError):
    """A parameter has an invalid value."""


class SchemaError(EupgError, ValueError):
    """A schema contradicts itself or cannot be read."""


class DataError(EupgError, ValueError):
    """Records do not fit the schema or the step."""


class NothingRetained(DataError):
    """No record is left to train on."""


class UnknownRecord(EupgError, KeyError):
    """A record or person that is not, or no longer, among the records."""

    # As written: ``KeyError`` would show the ``repr`` of the message.
    __str__ = Exception.__str__


class PrivacyError(EupgError, ValueError):
    """The request would weaken or void the guarantee."""


class CertificateRefused(PrivacyError):
    """Nothing is claimed, or not enough is said, so no certificate can be made."""


class CertificateInvalid(EupgError, ValueError):
    """A certificate is damaged, forged, or not what it seems."""


class KeyFileError(EupgError, OSError):
    """A key file is missing, damaged, or readable by others."""


class ModelFileError(EupgError, ValueError):
    """A model file is damaged, of another origin, or holds something that is not allowed."""


class LedgerCorrupt(EupgError, ValueError):
    """The ledger's entries contradict each other, or the index made from them."""


class LedgerUnavailable(EupgError, OSError):
    """The ledger cannot be opened, read or written right now."""


class LedgerBusy(LedgerUnavailable, TimeoutError):
    """Another writer held the ledger for longer than this one would wait."""


class LedgerMissing(LedgerUnavailable, FileNotFoundError):
    """The ledger of a workspace in use is missing."""


class RequestRefused(EupgError, ValueError):
    """An erasure request cannot take this step in its state."""


class NobodyNamed(RequestRefused):
    """A person is asked for in a workspace where no column names people."""


class UnknownRequest(EupgError, KeyError):
    """No erasure request has this id."""

    __str__ = Exception.__str__


class UnknownModel(EupgError, KeyError):
    """No workspace of this name is in the folder."""

    __str__ = Exception.__str__


class AccessDenied(EupgError, PermissionError):
    """The actor has no permission for this."""


class SignInFailed(EupgError, ConnectionError):
    """The provider of sign-ins does not answer, or its answer does not hold."""


class MailFailed(EupgError, OSError):
    """An e-mail could not be handed over to the mail server."""


class LeaseLost(EupgError, RuntimeError):
    """Another worker has taken over the work; what this one wanted to note is refused."""


class MissingFramework(EupgError, ModuleNotFoundError):
    """An optional package is needed and not installed."""


class StorageError(EupgError, OSError):
    """A file could not be written, read or removed; the message gives the reason."""


class StoreCorrupt(EupgError, ValueError):
    """A stored file is missing, damaged, or not what its name says."""


class DeletionIncomplete(EupgError, RuntimeError):
    """Deleted content still exists somewhere else."""


class LockHeld(EupgError, BlockingIOError):
    """Another process is changing the workspace right now."""


class ChangeOvertaken(EupgError, RuntimeError):
    """Another process changed the workspace while this change was being prepared; this one did not happen."""


class ChangeUnsettled(EupgError, RuntimeError):
    """The change took effect, but deleting old files or writing the ledger failed; ``recover`` completes it."""


class WorkspaceDamaged(EupgError, ValueError):
    """A workspace's own files contradict each other or its ledger."""


class WrongState(EupgError, RuntimeError):
    """The step needs another one first, or was done already."""


class WorkerLost(EupgError, RuntimeError):
    """A process of this run ended before it was done."""


class MeasurementFailed(EupgError, RuntimeError):
    """A process that measured for a benchmark ended before it was done."""


class SourceUnavailable(EupgError, FileNotFoundError):
    """A data set is neither on this machine nor can be downloaded."""
