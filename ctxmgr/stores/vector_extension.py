"""sqlite-vec: a table of vectors in SQLite. Loads the extension from its installed package."""

from importlib.util import find_spec
from typing import Final

import apsw

EXTENSION: Final = "sqlite_vec"


def load_vector_extension(connection: apsw.Connection) -> bool:
    """Add the table ``vec0`` to a connection; return False if that is not possible here.

    The package may be missing, and some builds of SQLite cannot load extensions.
    """
    if find_spec(EXTENSION) is None or not hasattr(connection, "enable_load_extension"):
        return False
    from sqlite_vec import loadable_path  # noqa: PLC0415 -- an extra

    connection.enable_load_extension(True)
    try:
        connection.load_extension(loadable_path())
    except apsw.ExtensionLoadingError:  # built for another machine
        return False
    finally:
        connection.enable_load_extension(False)
    return True
