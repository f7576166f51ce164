// Present so that the compiler accepts functions without a body in this package.
