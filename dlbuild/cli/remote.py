"""The remote store that the command line or the environment names."""

import argparse
import os

from dlbuild.base.errors import UserError
from dlbuild.build.remote import Place, Remote


def remote_of(given: argparse.Namespace) -> Remote:
    """Return it; secrets come from the environment alone.

    Raises:
        UserError: the address or $DLBUILD_REMOTE_UPLOAD is wrong.
    """
    uploads = given.remote_upload
    if uploads not in ("never", "always"):
        raise UserError(
            f"DLBUILD_REMOTE_UPLOAD cannot be '{uploads}'", fix="use never or always", exit_code=2
        )
    return Remote(
        Place(
            given.remote_cache,
            uploads == "always",
            os.environ.get("DLBUILD_REMOTE_TOKEN", ""),
            os.environ.get("DLBUILD_REMOTE_CA", ""),
        )
    )
