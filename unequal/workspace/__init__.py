"""What a computation is given by whoever runs it: its files, device and log, chunks, processes, wishes to stop."""
