from .membership.audit import audit as audit
from .membership.lira import LiRA as LiRA
from .membership.loss import LossAttack as LossAttack
from .membership.queries import PictureQueries as PictureQueries
from .membership.reference_store import ReferenceStore as ReferenceStore
from .membership.report import AuditReport as AuditReport
from .membership.rmia import RMIA as RMIA
from .versions import VersionsReport as VersionsReport
from .versions import compare_versions as compare_versions

__all__: list[str]
