"""The three parties of a collection: clients, a shuffler and a collector, each a job of its own."""
