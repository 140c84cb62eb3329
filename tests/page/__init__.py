"""The page: documents, and the static files that draw them."""
