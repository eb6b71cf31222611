"""What tests, demo and benchmarks share: servers, sources, traffic, recount, the pipeline."""
