"""A Ray cluster of several simulated machines, in a process of its own: `python cluster.py NUMBER`, one core each.

It says its address, then does what it reads, a line each: `remove` takes the oldest machine away as if its plug were pulled,
`add` brings another.
"""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster


def main(number: int) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    machines = [cluster.add_node(num_cpus=1) for _ in range(number)]
    print(f"address {cluster.address}", flush=True)
    for line in sys.stdin:
        if line.strip() == "remove":
            cluster.remove_node(machines.pop(0), allow_graceful=False)
        else:
            machines.append(cluster.add_node(num_cpus=1))
        print("did it", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
