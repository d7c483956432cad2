"""Several processes that train as one: started, watched, ended."""
