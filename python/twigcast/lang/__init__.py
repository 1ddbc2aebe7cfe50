"""Query languages: text in, patterns out, errors with a caret."""
