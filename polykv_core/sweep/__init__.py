"""Many heads, one verdict: which heads keep up under compression, on one machine or on a Dask cluster."""
