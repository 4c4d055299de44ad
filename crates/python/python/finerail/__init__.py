"""LNet in user space: Put and Get, ping, explanations, sites, plans, captures, control of a node.

    >>> import finerail
    >>> with finerail.Node(["127.0.0.1@tcp"], port=9988) as node:
    ...     node.ping("127.0.0.1@tcp")["primary_nid"]
    '127.0.0.1@tcp'

A call that waits lets other threads run, and Ctrl-C ends it. What cannot be done raises :class:`Error`; who does not
answer, :class:`NoAnswer`; an argument that cannot be used, :class:`ValueError`.
"""

from . import site
from ._finerail import (
    Capture,
    Error,
    Inbox,
    Machine,
    Message,
    NoAnswer,
    Node,
    Plan,
    Window,
    __version__,
    capture,
    doctor,
    explain,
    explain_state,
)
from .control import Control
from .frames import link_frame, plan_frame

__all__ = [
    "Capture",
    "Control",
    "Error",
    "Inbox",
    "Machine",
    "Message",
    "NoAnswer",
    "Node",
    "Plan",
    "Window",
    "__version__",
    "capture",
    "doctor",
    "explain",
    "explain_state",
    "link_frame",
    "plan_frame",
    "ping",
    "site",
]

# Examples of the compiled functions, for doctest.
__test__ = {"explain": explain.__doc__}


def ping(target, *, source, port=988, timeout=5.0):
    """Asks a node for its interfaces, from a node of its own that lives as long as the call.

    ``source`` is a NID of this machine on the target's network.

        >>> import finerail
        >>> with finerail.Node(["127.0.0.1@tcp"], port=9989):
        ...     finerail.ping("127.0.0.1@tcp", source="127.0.0.2@tcp", port=9989)["nis"]
        [{'nid': '127.0.0.1@tcp', 'up': True}]
    """
    with Node([source], port=port) as node:
        return node.ping(target, timeout=timeout)
