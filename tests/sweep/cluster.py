"""A Ray cluster of several simulated machines, in a process of its own: `python cluster.py NUMBER`, one core each.

It says its address, then does what it reads, a line each: `remove` takes the oldest machine away as if its plug were pulled,
`add` brings another.
"""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack

from ray.cluster_utils import Cluster

AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")


def agent_ports() -> dict[str, int]:
    """For the processes beside a machine's raylet. It waits 15 seconds for those that choose their own, then aborts."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in AGENT_PORTS]
        for one in sockets:
            one.bind(("", 0))
        return {name: one.getsockname()[1] for name, one in zip(AGENT_PORTS, sockets, strict=True)}


def main(number: int) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False} | agent_ports())
    machines = [cluster.add_node(num_cpus=1, **agent_ports()) for _ in range(number)]
    print(f"address {cluster.address}", flush=True)
    for line in sys.stdin:
        if line.strip() == "remove":
            cluster.remove_node(machines.pop(0), allow_graceful=False)
        else:
            machines.append(cluster.add_node(num_cpus=1, **agent_ports()))
        print("did it", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
