"""Control of a running node: what ``lnetctl`` does, as calls."""

import json

from . import _finerail


class Control:
    """A connection to the control socket of a node on this machine.

    Without a path, that of the node that ``finerail node`` started for this user. Answers of a node are YAML, as
    ``lnetctl`` prints it, where nothing else is said.
    """

    def __init__(self, path=None, *, timeout=30.0):
        self._control = _finerail.Control(path, timeout=timeout)

    def request(self, request):
        """Sends a request of the control protocol and returns the answer as text."""
        return self._control.request(json.dumps(request))

    def show(self, section, *, verbosity=4, **only):
        """Shows a section: net, peer, peer_list, route, routing, global, udsp, statistics, local_recovery,
        peer_recovery. ``only`` limits the answer: net, nid, gateway, hop, priority, idx."""
        return self.request({"show": {"section": section, "verbosity": verbosity, **only}})

    def export(self, *, backup=False):
        """Returns the configuration; with ``backup`` only what an import needs."""
        return self.request({"export": {"backup": backup}})

    def apply(self, yaml, *, mode="add", dry_run=False):
        """Applies a document in one step: mode add, complete, del or replace."""
        body = {"yaml": yaml, "mode": mode, "partial": False, "dry_run": dry_run}
        return self.request({"import": body})

    def ping(self, *nids, source=None, timeout=5):
        """Lets the node ping others; ``timeout`` in whole seconds."""
        body = {"nids": list(nids), "source": source, "timeout": timeout, "discover": False}
        return self.request({"ping": body})

    def discover(self, *nids, timeout=5):
        """Lets the node discover others."""
        body = {"nids": list(nids), "source": None, "timeout": timeout, "discover": True}
        return self.request({"ping": body})

    def set_health(self, nid, health):
        """Sets the health of a local interface, 0 to 1000."""
        return self.request({"set_health": {"target": {"ni": nid}, "health": health}})

    def parameter(self, name):
        """Returns a parameter as ``lctl get_param`` prints it."""
        return self.request({"parameter": {"name": name}})

    def state(self):
        """Returns the whole state of path selection as JSON, for :func:`finerail.explain_state`."""
        return self.request("selection_state")
