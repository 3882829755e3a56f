"""What travels to nodes and back: functions, arguments, results, errors, modules."""
