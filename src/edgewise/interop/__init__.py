"""Edgewise inside other libraries' models. Each package here imports the library it serves."""
