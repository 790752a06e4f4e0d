"""Many experiments as one: a grid of them, run by workers, one row of a Parquet data set each.

`grid` says which experiments, `task` what one of them is and comes to, `parcels` how traces reach workers and `carried` how policies do, `fingerprint` by what
these are told apart, `worker` what a worker does, `data_set` where rows are kept, `on_local`, `on_dask` and `on_ray` whose processes work, and `drive` brings
them together. `nearhead.fleet` runs through the same parts.

It keeps true that a row depends on its experiment alone, never on who ran it or when, but for the columns `worker` and `wall_s`; and that a row which
is in the data set is not made again. PyArrow, cloudpickle, Dask, Ray and tqdm are imported where a sweep needs them, and not before.
"""

from .drive import Sweep, sweep

__all__ = ["Sweep", "sweep"]
