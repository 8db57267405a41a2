"""What every room stands on, and nothing that computes: files, processes, stored tensors, chunks, progress, devices.

A file appears whole or not at all (`files`, `tensor_files`). A computation gets its inputs, device and log from a
`workspace`, and stores long work in `chunks`. Several `processes` share one batch.
"""
