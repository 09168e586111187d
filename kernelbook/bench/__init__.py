"""Measuring kernels on a GPU: a clock, a roofline, and the rows that are recorded."""
