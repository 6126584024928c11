from . import sources as sources
from .attribute import Attribute as Attribute
from .attribute import Categorical as Categorical
from .attribute import Key as Key
from .attribute import Listed as Listed
from .attribute import Missing as Missing
from .attribute import Numeric as Numeric
from .attribute import Ordinal as Ordinal
from .attribute import Outside as Outside
from .attribute import Role as Role
from .dataset import Dataset as Dataset
from .dataset import Examples as Examples
from .date import Date as Date
from .draft import SchemaDraft as SchemaDraft
from .kind import Accepts as Accepts
from .kind import DataKind as DataKind
from .pictures.attribute import Picture as Picture
from .pictures.files import image_dataset as image_dataset
from .pictures.files import read_images as read_images
from .schema import Schema as Schema
from .table_file import TableFile as TableFile
from .texts import Texts as Texts
from .texts import read_texts as read_texts
from .vector import Vector as Vector

__all__: list[str]
