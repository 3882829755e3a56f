"""Engines on a pool: Dask, Ray and MPI run on its nodes for the length of a block or of a call.

    with sky.ComputePool(nodes=3, pip=["distributed"]) as pool, sky.dask(pool) as client:
        client.submit(f, 1).result()

    with sky.ComputePool(nodes=3, pip=["ray[client]"]) as pool, sky.ray(pool) as address:
        ray.init(address)

Each engine is a few processes on each node. A call that runs for the length of the block starts
them and is their parent, so that they end with the block, with the pool and with their node. This
call takes one slot of each node."""
