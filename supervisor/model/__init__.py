"""Pure rules of the product: no I/O, no clock, no randomness of their own."""
