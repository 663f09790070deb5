"""What the tests of several rooms share: builders, a CRM in memory, a bridge without its web and workers, and a Redis that breaks off."""
