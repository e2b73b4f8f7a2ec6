"""What a person sees of a running gateway: a console to type into, a page to look at, metrics to collect."""
