"""Plans as pandas frames. These functions need pandas; the arrays of a plan need NumPy only."""


def plan_frame(machine, plan):
    """Returns a frame with a row for each client, net and choice: ``client``, ``net``, ``choice`` (0 is the primary)
    and ``router``. Places without a router are left out."""
    import pandas

    routers = plan.routers
    index = pandas.MultiIndex.from_product(
        [machine.clients, machine.nets, range(routers.shape[2])], names=["client", "net", "choice"]
    )
    frame = pandas.Series(routers.ravel(), index=index, name="router").reset_index()
    return frame[frame.router >= 0].reset_index(drop=True)


def link_frame(plan, *, reads=False):
    """Returns a frame with a row for each link: ``link``, ``load`` in units, ``capacity`` in GB/s, and
    ``utilisation``, the first divided by the second."""
    import pandas

    frame = pandas.DataFrame(plan.link_loads(reads=reads), columns=["link", "load", "capacity"])
    frame["link"] = frame["link"].astype(int)
    frame["utilisation"] = frame["load"] / frame["capacity"]
    return frame
