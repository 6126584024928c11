from .bundle import Bundle as Bundle
from .certificate import Certificate as Certificate
from .credential import Credential as Credential
from .issuer import Issuer as Issuer
from .verification import verify as verify

__all__: list[str]
