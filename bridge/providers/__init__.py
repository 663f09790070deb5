"""One adapter per phone system: it proves a webhook's sender and turns the provider's words into ours."""
