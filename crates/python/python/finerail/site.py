"""Questions about a site: a directory with the configuration files and outputs of its nodes."""

import os

from . import _finerail


def texts(directory):
    """Reads the files of a site: pairs of a path below the directory and a text."""
    found = []
    for folder, _folders, names in sorted(os.walk(directory)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            below = os.path.relpath(path, directory)
            if _finerail.is_wanted(below):
                with open(path, encoding="utf-8") as file:
                    found.append((below, file.read()))
    return found


def check(directory):
    """Reports what is wrong in a site, with the keys of ``finerail site check --json``."""
    return _finerail.site_check(texts(directory))


def reach(directory, senders=None, receivers=None):
    """Reports which nodes reach which, with the keys of ``finerail site reach --json``.

    ``senders`` and ``receivers`` are host lists, NIDs or nets, separated by commas; all without.
    """
    return _finerail.site_reach(texts(directory), senders, receivers)
