"""Unit tests of the kit: a checker that cannot fail checks nothing."""
